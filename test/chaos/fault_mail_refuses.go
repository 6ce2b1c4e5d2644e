package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/test/chaos/mailserver"
)

// refusalTime is longer than the sum of the retry delays. A consumer that takes a refusal by policy
// for an error of the message has dead letters after it.
const refusalTime = 6 * time.Second

// policies are refusals that do not depend on the message or the recipient.
var policies = []mailserver.Fault{
	{Code: 454, Enhanced: [3]int{4, 3, 0}, AfterData: true},
	{Code: 421, Enhanced: [3]int{4, 3, 2}},
	{Code: 451, Enhanced: [3]int{4, 7, 1}},
	{Code: 554, Enhanced: [3]int{5, 7, 1}},
}

func (sys *system) refuseByPolicy(ctx context.Context) error {
	for _, policy := range policies {
		began := time.Now()
		err := sys.refuseWith(ctx, policy)
		sys.requireFewConnections(policy, began)
		if err := errors.Join(err, sys.requireAllEffects(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// refuseWith makes the mail server refuse for a time.
func (sys *system) refuseWith(ctx context.Context, m mailserver.Fault) error {
	before := sys.mail.Injected()
	sys.mail.SetFault(m)
	err := sleep(ctx, sys.scaled(refusalTime))
	sys.mail.SetFault(mailserver.Fault{})
	sys.injected += sys.mail.Injected() - before
	return err
}

// requireFewConnections requires at most one connection per second and replica while the mail
// server refuses, in addition to one for each worker at the beginning.
func (sys *system) requireFewConnections(m mailserver.Fault, began time.Time) {
	tries, seconds := sys.mail.ConnectionsSince(began), int(time.Since(began).Seconds())
	bound := 0
	for _, r := range sys.notificationServices {
		bound += r.workers() + seconds
	}
	if tries > bound {
		sys.reportViolation("P9", "%d connections to a mail server that refuses with %d, in %d s, want at most %d", tries, m.Code, seconds, bound)
	}
}

// throttleMail accepts a few e-mails per second and refuses the others: first with 421, which
// closes the connection, then with 451.
func (sys *system) throttleMail(ctx context.Context) error {
	const perSecond = 5
	for _, m := range []mailserver.Fault{
		{Code: 421, Enhanced: [3]int{4, 7, 0}, PerSecond: perSecond},
		{Code: 451, Enhanced: [3]int{4, 7, 1}, PerSecond: perSecond},
	} {
		if err := errors.Join(sys.refuseWith(ctx, m), sys.requireAllEffects(ctx)); err != nil {
			return err
		}
	}
	return nil
}
