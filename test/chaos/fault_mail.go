package main

import (
	"context"
	"strings"
	"time"

	"example.com/transactional-outbox/test/chaos/broker"
	"example.com/transactional-outbox/test/chaos/mailserver"
	"example.com/transactional-outbox/test/servers"
)

// refuseMailConnections cuts the connections while no answer to DATA is due: a lost answer is
// another fault.
func (sys *system) refuseMailConnections(ctx context.Context) error {
	sys.mail.SetFault(mailserver.Fault{HoldRcpt: true})
	defer sys.mail.SetFault(mailserver.Fault{})
	if err := sleep(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	return sys.refuseConnections(ctx, []*servers.Proxy{sys.notifyToMail}, sys.scaled(6*time.Second))
}

func (sys *system) delayMail(ctx context.Context) error {
	return sys.injectTemporaryMailFault(ctx, mailserver.Fault{RcptDelay: 2 * time.Second})
}

// deferMail refuses so few e-mails that no message uses up its retries.
func (sys *system) deferMail(ctx context.Context) error {
	for range 3 {
		if err := sys.injectMailFault(ctx, mailserver.Fault{Code: 451, Times: 8}); err != nil {
			return err
		}
	}
	return nil
}

// busyMailboxes refuses the given number of recipients with 450, 0 for all. This is an error of the
// single message, so their messages go to the retry queues.
func busyMailboxes(times int) mailserver.Fault {
	return mailserver.Fault{Code: 450, Enhanced: [3]int{4, 2, 1}, Times: times}
}

// rejectMail rejects some recipients as unknown. When the dead letters are replayed, it accepts the
// recipients that are moved, and rejects those that are gone.
func (sys *system) rejectMail(ctx context.Context) error {
	return sys.injectMailFault(ctx, unknownUser(func(to string) bool { return isMoved(to) || isGone(to) }))
}

func unknownUser(only func(to string) bool) mailserver.Fault {
	return mailserver.Fault{Code: 550, Enhanced: [3]int{5, 1, 1}, Only: only}
}

func isMoved(to string) bool { return strings.HasSuffix(strings.TrimSuffix(to, "@load.example"), "5") }

func isGone(to string) bool { return strings.HasSuffix(strings.TrimSuffix(to, "@load.example"), "10") }

// replayRejected replays the dead letters. The recipients that are gone stay rejected.
func (sys *system) replayRejected(ctx context.Context) error {
	sys.mail.SetFault(unknownUser(isGone))
	sys.allowed.Refused = map[string]bool{}
	for _, to := range sys.mail.Refused() {
		sys.allowed.Refused[to] = isGone(to)
	}
	if err := sys.awaitRejected(ctx); err != nil {
		return err
	}
	return sys.runCommand(ctx, sys.notificationServices[0], "dlq", "replay", "--all")
}

// awaitRejected waits until the message of every rejected e-mail is a dead letter, at most
// recoveryTime. The checker finds missing ones.
func (sys *system) awaitRejected(ctx context.Context) error {
	for deadline := time.Now().Add(recoveryTime); time.Now().Before(deadline); {
		rejected := 0
		err := sys.notificationDB.QueryRow(ctx, "SELECT count(*) FROM notifications WHERE status = 'rejected'").Scan(&rejected)
		if err != nil {
			return err
		}
		dead, err := sys.broker.Ready(ctx, broker.DeadLetters)
		if err != nil || dead >= rejected {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (sys *system) dropMailConnections(ctx context.Context) error {
	for range 3 {
		if err := sys.injectMailFault(ctx, mailserver.Fault{Drop: true, Times: 3}); err != nil {
			return err
		}
	}
	return nil
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
