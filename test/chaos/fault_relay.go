package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/env/services"
)

// freezeRelay stalls a relay's connection to the broker, and freezes the relay while it holds a
// batch. When another relay has published that batch, it wakes the relay up, which then releases a
// batch that it no longer holds.
func (sys *system) freezeRelay(ctx context.Context) error {
	const wanted, tries = 2, 12
	sys.allowed.Lease = shortLease
	for try := 0; sys.injected < wanted && try < tries; try++ {
		if err := sys.freezeOnce(ctx, try%replicas); err != nil {
			return err
		}
	}
	return nil
}

func (sys *system) freezeOnce(ctx context.Context, i int) (err error) {
	relay, proxy := sys.orderServices[i], sys.ordersToBroker[i]
	sys.allowed.Duplicates += inFlight
	sys.allowed.Refusals = true // there is no answer in time
	held := claimedBy(relay)
	proxy.Stall()
	defer func() {
		proxy.Resume()
		err = errors.Join(err, sys.awaitCount(ctx, held, isPositive)) // it publishes again
	}()
	if err := sys.awaitCount(ctx, held+claimIsOld, isPositive); err != nil {
		return err
	}
	relay.setHidden(true)
	defer relay.setHidden(false)
	if err := relay.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err = sys.awaitTakeover(ctx, held)
	if err := errors.Join(err, relay.process.Signal(syscall.SIGCONT)); err != nil {
		return err
	}
	return sleep(ctx, sys.scaled(2*time.Second)) // its broker connection is still stalled
}

// idleTransactionsSQL counts transactions that have been idle for 300 ms.
const idleTransactionsSQL = `
SELECT count(*) FROM pg_stat_activity
WHERE state = 'idle in transaction' AND application_name <> '` + applicationName + `' AND state_change < now() - interval '300 ms'`

// awaitTakeover waits until the other relay has taken over the claim. If the relay was frozen in a
// transaction, its rows stay locked and nobody can take over.
func (sys *system) awaitTakeover(ctx context.Context, held string) error {
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	inTransaction := 0
	if err := sys.orderDB.QueryRow(ctx, idleTransactionsSQL).Scan(&inTransaction); err != nil || inTransaction > 0 {
		return err
	}
	if err := sys.awaitCount(ctx, held, isZero); err != nil {
		return err
	}
	sys.injected++
	return nil
}

func isPositive(n int) bool { return n > 0 }
func isZero(n int) bool     { return n == 0 }

// claimedBy returns a query that counts the events claimed by a relay.
func claimedBy(r *replica) string {
	return fmt.Sprintf("SELECT count(*) FROM outbox_claims, unnest(events) WHERE worker LIKE '%%/%d/%%'", r.process.PID)
}

// claimIsOld selects claims older than 200 ms. Their events wait for confirms: those that were
// confirmed before the stall are marked by then.
var claimIsOld = fmt.Sprintf(" AND until < now() + interval '%d ms'", (shortLease - 200*time.Millisecond).Milliseconds())

// setHidden removes a frozen replica from the load's targets, or adds it again.
func (r *replica) setHidden(hidden bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden = hidden
}

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
	l, err := r.process.Find(services.AnsweringOperators, time.Time{})
	if err == nil && time.Until(l.Time().Add(-ahead)).Abs() < time.Minute {
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
	if err := sys.awaitCount(ctx, claimedBy(r), isPositive); err != nil {
		return err
	}
	if err := sys.kill(ctx, r); err != nil {
		return err
	}
	proxy.Reset() // the stalled bytes never arrive
	return r.start(ctx)
}
