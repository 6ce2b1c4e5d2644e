package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/servicelog"
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
	proxy.Stall()
	defer func() {
		proxy.Resume()
		err = errors.Join(err, sys.awaitClaiming(ctx, relay))
	}()
	held := claimedBy(relay)
	if err := sys.awaitCount(ctx, held+claimIsOld, func(n int) bool { return n > 0 }); err != nil {
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
	if err := sys.awaitCount(ctx, held, func(n int) bool { return n == 0 }); err != nil {
		return err
	}
	sys.injected++
	return nil
}

// awaitClaiming waits until the relay publishes again.
func (sys *system) awaitClaiming(ctx context.Context, r *replica) error {
	return sys.awaitCount(ctx, claimedBy(r), func(n int) bool { return n > 0 })
}

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

// awaitCount repeats a count until it is enough.
func (sys *system) awaitCount(ctx context.Context, query string, enough func(int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		n := 0
		if err := sys.orderDB.QueryRow(ctx, query).Scan(&n); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		if enough(n) {
			return nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s: the count is %d: %w", query, n, err)
		}
	}
}

// runFiveRelays adds three relays without an API.
func (sys *system) runFiveRelays(ctx context.Context) error {
	for i := replicas; i < 5; i++ {
		r := sys.newOrderService(i, []string{"RELAY_WINDOW=3", "RELAY_POLL_INTERVAL=10ms"})
		r.command, r.ready = "relay", servicelog.ConnectedToBroker
		r.log = filepath.Join(sys.logs, fmt.Sprint("relay-", i+1))
		if err := r.start(ctx); err != nil {
			return err
		}
		sys.relays = append(sys.relays, r)
	}
	if err := sleep(ctx, sys.scaled(6*time.Second)); err != nil {
		return err
	}
	for _, r := range slices.Concat(sys.orderServices, sys.relays) {
		if _, err := r.find(servicelog.MessagePublished); err == nil {
			sys.injected++ // this relay has published events
		}
	}
	return nil
}
