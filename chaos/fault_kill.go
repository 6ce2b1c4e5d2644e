package main

import (
	"context"
	"fmt"
	"time"
)

// kill ends a replica, and counts that if it was the kill that did it.
func (y *system) kill(ctx context.Context, r *replica) error {
	killed, err := r.kill(ctx)
	if killed {
		y.injected++
	}
	return err
}

// excuseDeath allows for the e-mails that a process has sent and not yet marked sent when
// it dies: at most one for each worker. Nothing else but a death may repeat e-mails, and
// an answer of the mail server that is lost: that one counts those itself.
func (y *system) excuseDeath(r *replica) {
	y.allowed.Mails += r.workers()
	y.allowed.MailsEach++
}

// oneOf chooses a replica by chance.
func (y *system) oneOf(rs []*replica) *replica { return rs[y.random.IntN(len(rs))] }

// aMoment waits for between the half and the whole of d.
func (y *system) aMoment(ctx context.Context, d time.Duration) error {
	return sleep(ctx, d/2+time.Duration(y.random.Int64N(int64(d/2))))
}

func (y *system) killOrders(ctx context.Context) error {
	return y.killSeveral(ctx, y.orders, func(*replica) { y.allowed.Duplicates += inFlight })
}

func (y *system) killNotifications(ctx context.Context) error {
	return y.killSeveral(ctx, y.notifications, y.excuseDeath)
}

func (y *system) killSeveral(ctx context.Context, of []*replica, excuse func(*replica)) error {
	for range 4 {
		if err := y.aMoment(ctx, y.scaled(1500*time.Millisecond)); err != nil {
			return err
		}
		victim := y.oneOf(of)
		if err := y.kill(ctx, victim); err != nil {
			return err
		}
		excuse(victim)
		if err := y.aMoment(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if err := victim.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (y *system) crashOrders(ctx context.Context) error {
	for _, point := range []string{"relay.claimed", "relay.confirmed", "relay.marked"} {
		if err := y.crash(ctx, y.oneOf(y.orders), point, nil); err != nil {
			return err
		}
		y.allowed.Duplicates += inFlight
	}
	return nil
}

func (y *system) crashNotifications(ctx context.Context) error {
	for _, point := range []string{
		"consumer.arrived", "consumer.recorded", "consumer.committed", "notification.sending",
		"notification.mailed", "notification.sent", "consumer.completed",
	} {
		r := y.oneOf(y.notifications)
		if err := y.crash(ctx, r, point, nil); err != nil {
			return err
		}
		y.excuseDeath(r)
	}
	r := y.oneOf(y.notifications)
	y.excuseDeath(r)
	// Only what fails by its own fault is copied.
	return y.crash(ctx, r, "consumer.copied", func() {
		y.mail.Feel(busyMailboxes(4))
	})
}

// crash replaces a replica by one that kills itself at a point, waits for that while
// provoking it, and replaces it again.
func (y *system) crash(ctx context.Context, r *replica, point string, provoke func()) error {
	exit, err := r.stop(ctx)
	if err != nil {
		return err
	}
	y.exits = append(y.exits, exit)
	if err := r.launch(r.in(crashing), "CRASH_AT="+point); err != nil {
		return err
	}
	_ = r.awaitWork(ctx) // it may have come to the point already
	for deadline := time.Now().Add(patience); r.process.Alive(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s never came to %s", r.name, point)
		}
		if provoke != nil {
			provoke()
		}
		if err := sleep(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	if !r.wasKilled() {
		return fmt.Errorf("%s ended before it came to %s: %s", r.name, point, r.process.State())
	}
	y.injected++
	return r.start(ctx)
}
