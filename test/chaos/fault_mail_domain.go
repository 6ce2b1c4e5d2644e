package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/transactional-outbox/test/chaos/load"
	"example.com/transactional-outbox/test/chaos/mailserver"
)

// deferOneDomain places three, twelve and fifty orders whose domain refuses e-mails for now. Then a
// quarter of the domains of all orders refuses them.
func (sys *system) deferOneDomain(ctx context.Context) error {
	m := mailserver.Fault{Code: 450, Enhanced: [3]int{4, 1, 2}}
	for _, orders := range []int{3, 12, 50} {
		if err := sys.breakDomain(ctx, fmt.Sprintf("refuses-%d.example", orders), orders, m, 15*time.Second); err != nil {
			return err
		}
	}
	m.Only = func(to string) bool {
		return strings.HasSuffix(to, "@"+load.Domain(0)) || strings.HasSuffix(to, "@"+load.Domain(4))
	}
	return sys.breakDomain(ctx, "", 0, m, 15*time.Second)
}

// slowDownOneDomain places sixteen orders whose domain answers after 45 s: it accepts the e-mails,
// and then it refuses them.
func (sys *system) slowDownOneDomain(ctx context.Context) error {
	const orders, answerAfter = 16, 45 * time.Second
	for domain, m := range map[string]mailserver.Fault{
		"slow.example":    {RcptDelay: answerAfter},
		"refuses.example": {RcptDelay: answerAfter, Code: 450, Enhanced: [3]int{4, 2, 1}},
	} {
		if err := sys.breakDomain(ctx, domain, orders, m, answerAfter+5*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// breakDomain places orders of customers at a domain with a fault. The other domains go on, and
// when the fault is over, the e-mails go out.
func (sys *system) breakDomain(ctx context.Context, domain string, orders int, m mailserver.Fault, lasts time.Duration) error {
	if m.Only == nil {
		m.Only = func(to string) bool { return strings.HasSuffix(to, "@"+domain) }
	}
	before, began := sys.mail.Injected(), time.Now()
	sys.mail.SetFault(m)
	defer sys.mail.SetFault(mailserver.Fault{})
	var placing sync.WaitGroup
	for range orders {
		placing.Go(func() { sys.load.OrderFrom(ctx, domain) })
	}
	placing.Wait()
	if err := sleep(ctx, sys.scaled(lasts)); err != nil {
		return err
	}
	sys.injected += sys.mail.Injected() - before
	if err := sys.requireMailPace(ctx, began, func(to string) bool { return !m.Only(to) }); err != nil {
		return err
	}
	sys.mail.SetFault(mailserver.Fault{})
	return sys.requireAllEffects(ctx, mailRecoveryTime)
}
