package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/test/chaos/mailserver"
)

// kill kills a replica, and counts the fault if the replica was running.
func (sys *system) kill(ctx context.Context, r *replica) error {
	killed, err := r.kill(ctx)
	if killed {
		sys.injected++
	}
	return err
}

// allowMailRepeats permits repeats of the e-mails that a process had in flight when it died. Only a
// death, or a lost answer of the mail server, may repeat an e-mail. The mail server counts the
// latter.
func (sys *system) allowMailRepeats(r *replica) {
	sys.allowed.Mails += r.mailsInFlight()
	sys.allowed.MailsEach++
}

// randomReplica returns a random replica.
func (sys *system) randomReplica(rs []*replica) *replica { return rs[sys.random.IntN(len(rs))] }

// sleepRandom waits for a random time between half of d and d.
func (sys *system) sleepRandom(ctx context.Context, d time.Duration) error {
	return sleep(ctx, d/2+time.Duration(sys.random.Int64N(int64(d/2))))
}

func (sys *system) killOrders(ctx context.Context) error {
	return sys.killRandomly(ctx, sys.orderServices, func(*replica) { sys.allowed.Duplicates += inFlight })
}

func (sys *system) killNotifications(ctx context.Context) error {
	return sys.killRandomly(ctx, sys.notificationServices, sys.allowMailRepeats)
}

// killWhileCatchingUp kills both consumers while they send a backlog, so that every connection is
// busy. The mail server takes 50 ms for an e-mail. On a busy machine a mark takes as long, and each
// claim in hand has a mark of its own.
func (sys *system) killWhileCatchingUp(ctx context.Context) error {
	const some, answerAfter, busyMachine = 60, 50 * time.Millisecond, 2
	for range 4 {
		sys.mail.SetFault(mailserver.Fault{HoldRcpt: true})
		if err := sleep(ctx, sys.scaled(6*time.Second)); err != nil {
			return err
		}
		before := len(sys.mail.Mails())
		sys.mail.SetFault(mailserver.Fault{DataDelay: answerAfter})
		for soon := time.Now().Add(recoveryTime); len(sys.mail.Mails()) < before+some && time.Now().Before(soon); {
			if err := sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		for _, r := range sys.notificationServices {
			// The connections answer at the same time, because they were released together.
			if err := errors.Join(sys.noteMarks(ctx, r), sys.sleepRandom(ctx, 4*answerAfter), sys.kill(ctx, r)); err != nil {
				return err
			}
			sys.allowed.Mails += busyMachine * r.mailsInFlight()
			sys.allowed.MailsEach++
		}
		if err := sys.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// noteMarks notes how long the marks of a replica take.
func (sys *system) noteMarks(ctx context.Context, r *replica) error {
	seconds, err := r.metric(ctx, "outbox_mark_seconds_sum")
	n, countErr := r.metric(ctx, "outbox_mark_seconds_count")
	sys.noted("%s has written %.0f marks, in %.1f ms each", r.name, n, 1000*seconds/max(n, 1))
	return errors.Join(err, countErr)
}

func (sys *system) killRandomly(ctx context.Context, of []*replica, allow func(*replica)) error {
	for range 4 {
		if err := sys.sleepRandom(ctx, sys.scaled(1500*time.Millisecond)); err != nil {
			return err
		}
		victim := sys.randomReplica(of)
		if err := sys.kill(ctx, victim); err != nil {
			return err
		}
		allow(victim)
		if err := sys.sleepRandom(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if err := victim.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (sys *system) crashOrders(ctx context.Context) error {
	for _, point := range []string{"relay.claimed", "relay.confirmed", "relay.marked"} {
		if err := sys.crashAt(ctx, sys.randomReplica(sys.orderServices), point); err != nil {
			return err
		}
		sys.allowed.Duplicates += inFlight
	}
	return nil
}

func (sys *system) crashNotifications(ctx context.Context) error {
	for _, point := range []string{
		"consumer.arrived", "effect.recorded", "effect.committed", "consumer.handled", "relay.claimed", "relay.confirmed", "relay.marked",
	} {
		if err := sys.crashNotification(ctx, point); err != nil {
			return err
		}
	}
	// Only a message that fails because of itself is copied to a retry queue.
	return sys.refusingOrders(ctx, 5, func() error { return sys.crashNotification(ctx, "consumer.copied") })
}

func (sys *system) crashNotification(ctx context.Context, point string) error {
	r := sys.randomReplica(sys.notificationServices)
	sys.allowMailRepeats(r)
	return sys.crashAt(ctx, r, point)
}

// crashAt replaces a replica by one that kills itself at a crash point, waits until it has, and
// starts the usual one again.
func (sys *system) crashAt(ctx context.Context, r *replica, point string) error {
	exit, err := r.stop(ctx)
	if err != nil {
		return err
	}
	sys.exits = append(sys.exits, exit)
	if err := r.launch(r.programIn(crashing), "CRASH_AT="+point); err != nil {
		return err
	}
	_ = r.awaitReady(ctx) // it may have reached the point already
	for deadline := time.Now().Add(maxWait); r.process.Alive(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s never reached %s", r.name, point)
		}
		if err := sleep(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	if !r.wasKilled() {
		return fmt.Errorf("%s ended before it reached %s: %s", r.name, point, r.process.State())
	}
	sys.injected++
	return r.start(ctx)
}
