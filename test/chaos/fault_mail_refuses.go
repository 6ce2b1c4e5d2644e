package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/test/chaos/mailserver"
)

// refusalTime is longer than the sum of the retry delays.
const refusalTime = 6 * time.Second

// policies are refusals that do not depend on the message or the recipient.
var policies = []mailserver.Fault{
	{Code: 454, Enhanced: [3]int{4, 3, 0}, AfterData: true},
	{Code: 421, Enhanced: [3]int{4, 3, 2}},
	{Code: 451, Enhanced: [3]int{4, 7, 1}},
	{Code: 554, Enhanced: [3]int{5, 7, 1}},
	{Code: 550, Enhanced: [3]int{5, 1, 8}}, // the sender
}

// refuseByPolicy refuses everything, while earlier e-mails are still being accepted.
func (sys *system) refuseByPolicy(ctx context.Context) error {
	for _, policy := range policies {
		sys.mail.SetFault(mailserver.Fault{HoldData: true})
		if err := sys.awaitHeld(ctx); err != nil {
			return err
		}
		began := time.Now()
		err := sys.refuseWith(ctx, policy)
		sys.requireFewConnections(policy, began)
		if err := errors.Join(err, sys.requireAllEffects(ctx, mailRecoveryTime)); err != nil {
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

// requireFewConnections requires few connections while the mail server refuses everything: a domain
// is tried until it pauses, and then once a second at most.
func (sys *system) requireFewConnections(m mailserver.Fault, began time.Time) {
	tries := sys.mail.ConnectionsSince(began)
	bound := replicas * mailConnections * (2 + int(time.Since(began).Seconds()))
	sys.noted("%d connections to a mail server that refuses with %d, of at most %d", tries, m.Code, bound)
	if tries > bound {
		sys.reportViolation("P9", "%d connections to a mail server that refuses with %d, in %s, want at most %d",
			tries, m.Code, time.Since(began).Round(time.Second), bound)
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
		if err := errors.Join(sys.refuseWith(ctx, m), sys.requireAllEffects(ctx, mailRecoveryTime)); err != nil {
			return err
		}
	}
	return nil
}

// allowFewerConnections allows fewer connections than the services open, and takes 200 ms for each
// e-mail. What these connections can carry must go out.
func (sys *system) allowFewerConnections(ctx context.Context) error {
	const connections, each, lasts, share = 3, 200 * time.Millisecond, 20 * time.Second, 0.8
	sys.mail.SetFault(mailserver.Fault{MaxConnections: connections, RcptDelay: each})
	defer sys.mail.SetFault(mailserver.Fault{})
	sys.notifyToMail.Cut()
	if err := sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	before, refused := len(sys.mail.Mails()), sys.mail.Injected()
	if err := sleep(ctx, sys.scaled(lasts)); err != nil {
		return err
	}
	sent, could := len(sys.mail.Mails())-before, connections*float64(sys.scaled(lasts)/each)
	sys.injected += sys.mail.Injected() - refused
	sys.noted("%d e-mails over %d connections, which carry %.0f", sent, connections, could)
	if float64(sent) < share*could {
		sys.reportViolation("P9", "%d e-mails were sent over %d connections, which carry %.0f", sent, connections, could)
	}
	sys.mail.SetFault(mailserver.Fault{})
	return sys.requireAllEffects(ctx, mailRecoveryTime)
}
