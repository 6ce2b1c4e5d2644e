package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// wrongBy is how far the clocks of all replicas are ahead. Those of the relays are off
// by what a lease or a retention of theirs would feel; those of the consumers by more
// than the least time for which an inbox remembers its messages.
var wrongBy = []time.Duration{time.Hour, -time.Hour, 26 * time.Hour, -26 * time.Hour}

// shortestMemory makes the services forget as soon as they may: by a clock that is
// ahead, at once.
var (
	shortestOrderMemory        = []string{"OUTBOX_RETENTION=1h", "IDEMPOTENCY_RETENTION=1h"}
	shortestNotificationMemory = []string{"INBOX_RETENTION=25h"}
)

// What the wrong clocks may be in is the ids: a UUIDv7 begins with the time. It makes
// neighbours of rows, and nobody reads it.

// setClocks replaces all replicas by such with wrong clocks, and kills each relay with
// a batch in hand, whose lease then has to end by a clock that is right. The bad
// messages become dead letters, which say when.
func (y *system) setClocks(ctx context.Context) error {
	for i, r := range y.all() {
		r.program, r.settings = r.in(wrongTime), append(slices.Clone(r.settings), "CLOCK_AHEAD="+wrongBy[i].String())
		if err := errors.Join(y.end(ctx, r), r.start(ctx)); err != nil {
			return err
		}
		if err := y.noteClock(r, wrongBy[i]); err != nil {
			return err
		}
	}
	if err := y.plant(ctx, 3); err != nil {
		return err
	}
	for i := range y.orders {
		if err := y.killInMidBatch(ctx, i); err != nil {
			return err
		}
	}
	return y.killNotifications(ctx)
}

// noteClock counts a clock that is wrong, by the log of its replica.
func (y *system) noteClock(r *replica, ahead time.Duration) error {
	l, err := r.find(r.ready)
	if err == nil && time.Until(l.Time.Add(-ahead)).Abs() < time.Minute {
		y.injected++
	}
	return err
}

// killInMidBatch kills a relay that waits for confirms.
func (y *system) killInMidBatch(ctx context.Context, i int) error {
	r, way := y.orders[i], y.ordersToBroker[i]
	y.allowed.Duplicates += inFlight
	way.Stall()
	defer way.Resume()
	if err := y.awaitCount(ctx, heldBy(r), func(n int) bool { return n > 0 }); err != nil {
		return err
	}
	if err := y.kill(ctx, r); err != nil {
		return err
	}
	way.Reset() // what is on its way never arrives
	return r.start(ctx)
}
