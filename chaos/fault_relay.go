package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"example.com/transactional-outbox/chaos/broker"
)

// freezeRelay takes the broker away from a relay, freezes it with a batch in hand until
// another relay has published that batch, and wakes it up: it then gives back what it
// does not hold any more.
func (y *system) freezeRelay(ctx context.Context) error {
	const wanted, tries = 2, 12
	y.allowed.Lease = shortLease
	for try := 0; y.injected < wanted && try < tries; try++ {
		if err := y.freeze(ctx, try%replicas); err != nil {
			return err
		}
	}
	return nil
}

func (y *system) freeze(ctx context.Context, i int) (err error) {
	sleeper, way := y.orders[i], y.ordersToBroker[i]
	y.allowed.Duplicates += inFlight
	way.Stall()
	defer func() {
		way.Resume()
		err = errors.Join(err, y.awaitSession(ctx, sleeper))
	}()
	held := heldBy(sleeper)
	if err := y.awaitCount(ctx, held+claimedAWhileAgo, func(n int) bool { return n > 0 }); err != nil {
		return err
	}
	sleeper.hide(true)
	defer sleeper.hide(false)
	if err := sleeper.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err = y.awaitTakeover(ctx, held)
	if err := errors.Join(err, sleeper.process.Signal(syscall.SIGCONT)); err != nil {
		return err
	}
	return sleep(ctx, y.scaled(2*time.Second)) // it hears nothing of the broker yet
}

// frozenSQL counts the transactions in which nobody has said anything for a while.
const frozenSQL = `
SELECT count(*) FROM pg_stat_activity
WHERE state = 'idle in transaction' AND application_name <> '` + ourselves + `' AND state_change < now() - interval '300 ms'`

// awaitTakeover waits until others have what a frozen relay held. If it was frozen in
// mid-transaction, its rows are locked, and there is nothing to wait for.
func (y *system) awaitTakeover(ctx context.Context, held string) error {
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	inTransaction := 0
	if err := y.orderDB.QueryRow(ctx, frozenSQL).Scan(&inTransaction); err != nil || inTransaction > 0 {
		return err
	}
	if err := y.awaitCount(ctx, held, func(n int) bool { return n == 0 }); err != nil {
		return err
	}
	y.injected++
	return nil
}

// awaitSession waits until a relay that was cut off publishes again.
func (y *system) awaitSession(ctx context.Context, r *replica) error {
	return y.awaitCount(ctx, heldBy(r), func(n int) bool { return n > 0 })
}

// heldBy counts the events that a relay has claimed.
func heldBy(r *replica) string {
	return fmt.Sprintf("SELECT count(*) FROM outbox_events WHERE status = 'in_progress' AND locked_by LIKE '%%/%d/%%'", r.process.PID)
}

// claimedAWhileAgo: what was confirmed before the stall is marked by then, and the rest
// still waits for its confirm.
var claimedAWhileAgo = fmt.Sprintf(" AND available_at < now() + interval '%d ms'", (shortLease - 200*time.Millisecond).Milliseconds())

// hide keeps the load from a replica that lives and does not answer.
func (r *replica) hide(hidden bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden = hidden
}

// awaitCount asks until the outbox counts to what is wanted.
func (y *system) awaitCount(ctx context.Context, query string, enough func(int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		n := 0
		if err := y.orderDB.QueryRow(ctx, query).Scan(&n); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		if enough(n) {
			return nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s counts to %d: %w", query, n, err)
		}
	}
}

// raceRelays adds three relays without an API.
func (y *system) raceRelays(ctx context.Context) error {
	for i := replicas; i < 5; i++ {
		r := y.newOrders(i, []string{"RELAY_BATCH_SIZE=3", "RELAY_POLL_INTERVAL=10ms"})
		r.command, r.ready = "relay", "connected to the broker"
		r.log = filepath.Join(y.logs, fmt.Sprint("relay-", i+1))
		if err := r.start(ctx); err != nil {
			return err
		}
		y.relays = append(y.relays, r)
	}
	if err := sleep(ctx, y.scaled(6*time.Second)); err != nil {
		return err
	}
	for _, r := range slices.Concat(y.orders, y.relays) {
		if _, err := r.find("message published"); err == nil {
			y.injected++ // this one took part
		}
	}
	return nil
}

// shuffle takes the messages from the queue while nobody consumes, and puts each back
// three times, in any order.
func (y *system) shuffle(ctx context.Context) error {
	for range 2 {
		for _, r := range y.notifications {
			if err := y.end(ctx, r); err != nil {
				return err
			}
		}
		if err := sleep(ctx, y.scaled(2*time.Second)); err != nil {
			return err
		}
		// The relay goes on meanwhile; what comes now stands before or behind.
		messages, err := y.broker.Drain(ctx, broker.Queue)
		if err != nil {
			return err
		}
		messages = slices.Concat(messages, messages, messages)
		y.random.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
		if err := y.broker.GiveBack(ctx, messages...); err != nil {
			return err
		}
		y.injected += len(messages)
		if err := y.start(ctx); err != nil {
			return err
		}
	}
	return nil
}
