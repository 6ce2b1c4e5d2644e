package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
)

// Recipients with a fault.
func ofOneDomain(to string) bool { return strings.HasSuffix(to, "@"+load.Domain(0)) }
func ofSome(to string) bool      { return load.Number(to)%20 == 0 }

const (
	enoughFaults = 2
	enoughMails  = 300 // so many that the fault also hits each connection that it can hit
)

// mailFaultOf injects a fault for some recipients, until it has happened a few times and then the
// others have got their e-mails.
func mailFaultOf(only func(to string) bool, m mailserver.Fault) step {
	m.Only = only
	return func(sys *system, ctx context.Context) error {
		before := sys.mail.Injected()
		sys.mail.SetFault(m)
		defer sys.mail.SetFault(mailserver.Fault{})
		err := sys.require(ctx, "harness", "after the start of the mail server's fault", func() (string, error) {
			if n := sys.mail.Injected() - before; n < enoughFaults {
				return fmt.Sprintf("the fault has happened %d times", n), nil
			}
			return "", nil
		})
		spared := len(sys.mail.Mails())
		err = errors.Join(err, sys.require(ctx, "P9", "beside the e-mails that have the fault", func() (string, error) {
			sent := sys.mail.Mails()[spared:]
			if n := len(slices.DeleteFunc(sent, func(m mailserver.Mail) bool { return only(m.To) })); n < enoughMails {
				return fmt.Sprintf("%d e-mails were sent", n), nil
			}
			return "", nil
		}))
		sys.injected += sys.mail.Injected() - before
		return err
	}
}

// requireLateRepeats requires that an e-mail whose answer was lost is not repeated within a minute.
func (sys *system) requireLateRepeats(ctx context.Context) error {
	if _, err := sys.awaitFinished(ctx); err != nil {
		return err
	}
	lost := map[string]time.Time{}
	for _, m := range sys.mail.Mails() {
		if at, repeated := lost[m.MessageID]; repeated && m.At.Sub(at) < 50*time.Second { // a minute, less the jitter
			sys.reportViolation("P6", "the e-mail %s was repeated %s after its answer was lost", m.MessageID, m.At.Sub(at))
		}
		if m.Cut {
			lost[m.MessageID] = m.At
		}
	}
	return nil
}

// policies are refusals that do not depend on the message or the recipient.
var policies = []mailserver.Fault{
	{Code: 454, Enhanced: [3]int{4, 3, 0}, AfterData: true},
	{Code: 421, Enhanced: [3]int{4, 3, 2}},
	{Code: 554, Enhanced: [3]int{5, 7, 1}},
}

// refuseByPolicy refuses everything for longer than the sum of the retry delays, while earlier
// e-mails are still being accepted.
func (sys *system) refuseByPolicy(ctx context.Context) error {
	defer sys.mail.SetFault(mailserver.Fault{})
	for _, policy := range policies {
		sys.mail.SetFault(mailserver.Fault{HoldData: true})
		if err := sys.awaitHeld(ctx, 1); err != nil {
			return err
		}
		before := sys.mail.Injected()
		sys.mail.SetFault(policy)
		if err := sleep(ctx, sys.scaled(6*time.Second)); err != nil {
			return err
		}
		sys.injected += sys.mail.Injected() - before
		sys.mail.SetFault(mailserver.Fault{})
		if err := sys.requireAllEffects(ctx, "P9", "after the mail server refused everything"); err != nil {
			return err
		}
	}
	return nil
}

// awaitHeld waits until so many connections wait for the answer to DATA.
func (sys *system) awaitHeld(ctx context.Context, connections int) error {
	return sys.require(ctx, "harness", "after the mail server's answers were held", func() (string, error) {
		if n := sys.mail.Held(); n < connections {
			return fmt.Sprintf("%d connections wait for an answer", n), nil
		}
		return "", nil
	})
}
