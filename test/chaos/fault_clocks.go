package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/transactional-outbox/test/servicelog"
)

// clockOffsets is how far the clocks of the replicas are ahead. One hour is longer than a relay's
// lease and as long as its shortest retention. 50 hours are longer than the shortest
// INBOX_RETENTION.
var clockOffsets = []time.Duration{time.Hour, -time.Hour, 50 * time.Hour, -50 * time.Hour}

// The shortest retentions. A service that used its own clock, which is ahead, would delete at once.
var (
	shortestOrderMemory        = []string{"OUTBOX_RETENTION=1h", "IDEMPOTENCY_RETENTION=1h"}
	shortestNotificationMemory = []string{"CONSUMER_GIVE_UP=1h", "INBOX_RETENTION=49h", "OUTBOX_RETENTION=1h"}
)

// useWrongClocks replaces all replicas by replicas with wrong clocks, and kills each relay while it
// holds a claim. The right clock must end the claim's lease. The malformed messages become dead
// letters with the header failed-at. The wrong clocks may appear in ids: a UUIDv7 begins with the
// time, and no service reads it.
func (sys *system) useWrongClocks(ctx context.Context) error {
	for i, r := range sys.allReplicas() {
		r.program, r.settings = r.programIn(wrongTime), append(slices.Clone(r.settings), "CLOCK_AHEAD="+clockOffsets[i].String())
		if err := errors.Join(sys.stopReplica(ctx, r), r.start(ctx)); err != nil {
			return err
		}
		if err := sys.countWrongClock(r, clockOffsets[i]); err != nil {
			return err
		}
	}
	if err := sys.publishMalformed(ctx, 3); err != nil {
		return err
	}
	for i := range sys.orderServices {
		if err := sys.killDuringBatch(ctx, i); err != nil {
			return err
		}
	}
	return sys.killNotifications(ctx)
}

// countWrongClock counts a replica with a wrong clock, after a look at the times in its log.
func (sys *system) countWrongClock(r *replica, ahead time.Duration) error {
	l, err := r.find(servicelog.AnsweringOperators)
	if err == nil && time.Until(l.Time.Add(-ahead)).Abs() < time.Minute {
		sys.injected++
	}
	return err
}

// killDuringBatch kills a relay while it waits for confirms.
func (sys *system) killDuringBatch(ctx context.Context, i int) error {
	r, proxy := sys.orderServices[i], sys.ordersToBroker[i]
	sys.allowed.Duplicates += inFlight
	sys.allowed.Refusals = true // there may be no answer in time
	proxy.Stall()
	defer proxy.Resume()
	if err := sys.awaitCount(ctx, claimedBy(r), func(n int) bool { return n > 0 }); err != nil {
		return err
	}
	if err := sys.kill(ctx, r); err != nil {
		return err
	}
	proxy.Reset() // the stalled bytes never arrive
	return r.start(ctx)
}

// changeTimeZones changes the time zones of databases and processes, and kills relays so that
// leases expire.
func (sys *system) changeTimeZones(ctx context.Context) error {
	for database, zone := range map[string]string{orderDatabase: "Pacific/Kiritimati", notificationDatabase: "America/St_Johns"} {
		if err := sys.execute(ctx, "postgres", fmt.Sprintf("ALTER DATABASE %s SET timezone = '%s'", database, zone)); err != nil {
			return err
		}
	}
	for i, r := range sys.allReplicas() {
		if err := sys.stopReplica(ctx, r); err != nil {
			return err
		}
		if err := r.start(ctx, "TZ="+[]string{"Asia/Kathmandu", "Pacific/Pago_Pago", "Pacific/Chatham", "Etc/GMT+12"}[i]); err != nil {
			return err
		}
	}
	return sys.killOrders(ctx)
}
