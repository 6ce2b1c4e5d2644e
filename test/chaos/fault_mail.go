package main

import (
	"context"
	"time"

	"example.com/transactional-outbox/test/chaos/load"
	"example.com/transactional-outbox/test/chaos/mailserver"
	"example.com/transactional-outbox/test/servers"
)

// refuseMailConnections cuts the connections while no answer to DATA is due: a lost answer is
// another fault.
func (sys *system) refuseMailConnections(ctx context.Context) error {
	if err := sys.holdBeforeData(ctx); err != nil {
		return err
	}
	defer sys.mail.SetFault(mailserver.Fault{})
	if err := sys.refuseConnections(ctx, []*servers.Proxy{sys.notifyToMail}, sys.scaled(6*time.Second)); err != nil {
		return err
	}
	sys.mail.SetFault(mailserver.Fault{})
	return sys.requireAllEffects(ctx, mailRecoveryTime)
}

// holdBeforeData waits until no e-mail waits for the answer to DATA.
func (sys *system) holdBeforeData(ctx context.Context) error {
	sys.mail.SetFault(mailserver.Fault{HoldRcpt: true})
	return sleep(ctx, 500*time.Millisecond)
}

// cutBrokerWhileMailIsDown cuts the consumers' connections to the broker more often than the broker
// delivers a message, while no e-mail can be sent. No message may become a dead letter.
func (sys *system) cutBrokerWhileMailIsDown(ctx context.Context) error {
	const moreThanTheDeliveryLimit = 51
	if err := sys.holdBeforeData(ctx); err != nil {
		return err
	}
	sys.notifyToMail.Refuse(true)
	sys.notifyToMail.Cut()
	defer sys.notifyToMail.Refuse(false)
	sys.mail.SetFault(mailserver.Fault{})
	for range moreThanTheDeliveryLimit {
		for _, p := range sys.notifyToBroker {
			sys.injected += p.Open()
			p.Reset()
		}
		if err := sys.sleepRandom(ctx, 400*time.Millisecond); err != nil {
			return err
		}
	}
	sys.notifyToMail.Refuse(false)
	return sys.requireAllEffects(ctx, mailRecoveryTime)
}

func (sys *system) delayMail(ctx context.Context) error {
	return sys.injectTemporaryMailFault(ctx, mailserver.Fault{RcptDelay: 2 * time.Second, DataDelay: 2 * time.Second})
}

func (sys *system) deferMail(ctx context.Context) error {
	for range 3 {
		if err := sys.injectMailFault(ctx, mailserver.Fault{Code: 451, Times: 8}); err != nil {
			return err
		}
	}
	return nil
}

// rejectMail rejects some recipients as unknown. When the failed e-mails are replayed, it accepts
// the recipients that are moved, and rejects those that are gone.
func (sys *system) rejectMail(ctx context.Context) error {
	return sys.injectMailFault(ctx, unknownUser(isMovedOrGone))
}

func unknownUser(only func(to string) bool) mailserver.Fault {
	return mailserver.Fault{Code: 550, Enhanced: [3]int{5, 1, 1}, Only: only}
}

func isMovedOrGone(to string) bool { return load.Number(to)%5 == 0 }
func isGone(to string) bool        { return load.Number(to)%10 == 0 }

// replayRejected replays the failed e-mails. The recipients that are gone stay rejected.
func (sys *system) replayRejected(ctx context.Context) error {
	if _, err := sys.awaitFinished(ctx); err != nil {
		return err
	}
	sys.mail.SetFault(unknownUser(isGone))
	sys.allowed.Refused = map[string]bool{}
	for n := range 10_000 {
		if to := load.Email(n); isMovedOrGone(to) {
			sys.allowed.Refused[to] = isGone(to)
		}
	}
	return sys.runCommand(ctx, sys.notificationServices[0], "outbox", "replay", "--all")
}

// loseMailAnswers accepts the e-mails of some recipients, and closes the connection instead of the
// answer, each time. They are repeated a minute later, and not before; the others go on.
func (sys *system) loseMailAnswers(ctx context.Context) error {
	return sys.injectForSome(ctx, mailserver.Fault{Drop: true}, 50*time.Second, func() {
		copies := map[string]int{}
		for _, m := range sys.mail.Mails() {
			if copies[m.MessageID]++; m.Cut && copies[m.MessageID] > 1 {
				sys.reportViolation("P6", "the e-mail %s was repeated less than a minute after its answer was lost", m.MessageID)
			}
		}
	})
}

// hangUp closes the connection at the address of some recipients, and then refuses them with 421.
// The services are started anew meanwhile.
func (sys *system) hangUp(ctx context.Context) error {
	for _, m := range []mailserver.Fault{{HangUp: true}, {Code: 421, Enhanced: [3]int{4, 7, 0}}} {
		if err := sys.injectForSome(ctx, m, 15*time.Second, nil); err != nil {
			return err
		}
		for _, r := range sys.notificationServices {
			if err := sys.stopReplica(ctx, r); err != nil {
				return err
			}
		}
		if err := sys.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// injectForSome injects a fault for one of twenty recipients, and requires that the others go on.
func (sys *system) injectForSome(ctx context.Context, m mailserver.Fault, d time.Duration, judge func()) error {
	m.Only = func(to string) bool { return load.Number(to)%20 == 0 }
	before, began := sys.mail.Injected(), time.Now()
	sys.mail.SetFault(m)
	defer sys.mail.SetFault(mailserver.Fault{})
	if err := sleep(ctx, sys.scaled(d)); err != nil {
		return err
	}
	sys.injected += sys.mail.Injected() - before
	if judge != nil {
		judge()
	}
	return sys.requireMailPace(ctx, began, func(to string) bool { return !m.Only(to) })
}

// injectTemporaryMailFault injects a fault of the mail server for a time.
func (sys *system) injectTemporaryMailFault(ctx context.Context, m mailserver.Fault) error {
	defer sys.mail.SetFault(mailserver.Fault{})
	return sys.injectMailFault(ctx, m)
}

// injectMailFault injects a fault, and waits. The fault stays until Times of it happened.
func (sys *system) injectMailFault(ctx context.Context, m mailserver.Fault) error {
	before := sys.mail.Injected()
	sys.mail.SetFault(m)
	err := sys.sleepRandom(ctx, sys.scaled(5*time.Second))
	sys.injected += sys.mail.Injected() - before
	return err
}
