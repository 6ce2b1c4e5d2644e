package main

import (
	"context"
	"fmt"
	"time"
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
// death or a lost answer of the mail server may repeat an e-mail, and the mail server counts the
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
		if err := sys.crashAt(ctx, sys.randomReplica(sys.orderServices), point, nil); err != nil {
			return err
		}
		sys.allowed.Duplicates += inFlight
	}
	return nil
}

func (sys *system) crashNotifications(ctx context.Context) error {
	for _, point := range []string{
		"consumer.arrived", "consumer.recorded", "consumer.committed", "notification.sending",
		"notification.mailed", "notification.sent", "consumer.completed",
	} {
		r := sys.randomReplica(sys.notificationServices)
		if err := sys.crashAt(ctx, r, point, nil); err != nil {
			return err
		}
		sys.allowMailRepeats(r)
	}
	r := sys.randomReplica(sys.notificationServices)
	sys.allowMailRepeats(r)
	// Only a message that fails because of itself is copied to a retry queue.
	return sys.crashAt(ctx, r, "consumer.copied", func() {
		sys.mail.SetFault(busyMailboxes(4))
	})
}

// crashAt replaces a replica by one that kills itself at a crash point, waits until it has, and
// starts the usual one again. It calls provoke until then.
func (sys *system) crashAt(ctx context.Context, r *replica, point string, provoke func()) error {
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
		if provoke != nil {
			provoke()
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
