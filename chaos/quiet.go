package main

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/chaos/broker"
	"example.com/transactional-outbox/chaos/checker"
)

// awaitQuiet returns when nothing is left to be done, or with the reason why that never
// comes.
func (y *system) awaitQuiet(ctx context.Context) (restless, err error) {
	for deadline := time.Now().Add(y.Patience); time.Now().Before(deadline); {
		if restless = y.restless(ctx); restless == nil {
			return nil, nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return fmt.Errorf("not quiet after %s: %w", y.Patience, restless), nil
}

// restless says what is still to be done.
func (y *system) restless(ctx context.Context) error {
	var due, published, settled, noted int
	err := y.orderDB.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status IN ('pending', 'in_progress')),
		count(*) FILTER (WHERE status = 'published') FROM outbox_events`).Scan(&due, &published)
	if err != nil {
		return err
	}
	if due > 0 {
		return fmt.Errorf("%d events are not published", due)
	}
	if err := y.endOldLeases(ctx); err != nil {
		return err
	}
	err = y.notificationDB.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status IN ('sent', 'superseded', 'rejected')),
		count(*) FROM notifications`).Scan(&settled, &noted)
	if err != nil {
		return err
	}
	if settled < noted || noted < published {
		return fmt.Errorf("%d of %d notifications of %d events are settled", settled, noted, published)
	}
	return y.restlessQueues(ctx)
}

func (y *system) restlessQueues(ctx context.Context) error {
	for _, queue := range append([]string{broker.Queue}, y.tiers()...) {
		ready, err := y.broker.Ready(ctx, queue)
		if err == nil && ready > 0 {
			err = fmt.Errorf("%d messages wait in %s", ready, queue)
		}
		if err != nil {
			return err
		}
	}
	if len(y.allowed.Planted) == 0 {
		return nil
	}
	dead, err := y.broker.Ready(ctx, broker.DeadLetters)
	if err == nil && dead < len(y.allowed.Planted) {
		err = fmt.Errorf("%d of %d bad messages are dead letters", dead, len(y.allowed.Planted))
	}
	return err
}

// A dead process loses the lease of an e-mail after mailLease. Here it loses it sooner: one
// that lives renews it every 10 seconds.
const (
	mailLease     = 30 * time.Second
	endLeaseAfter = 12 * time.Second
)

const endOldLeasesSQL = `
UPDATE notifications SET lease_until = now()
WHERE status = 'sending' AND lease_until BETWEEN now() AND now() + $1::interval`

func (y *system) endOldLeases(ctx context.Context) error {
	if y.leasesAreTheirs {
		return nil
	}
	_, err := y.notificationDB.Exec(ctx, endOldLeasesSQL, mailLease-endLeaseAfter)
	return err
}

// readQueues empties all queues. Nobody consumes any more: what is not there is gone.
func (y *system) readQueues(ctx context.Context, e *checker.Evidence) (err error) {
	if e.Tap, err = y.broker.Drain(ctx, broker.Tap); err != nil {
		return err
	}
	for _, queue := range append([]string{broker.Queue}, y.tiers()...) {
		waiting, err := y.broker.Drain(ctx, queue)
		if err != nil {
			return err
		}
		e.Waiting = append(e.Waiting, waiting...)
	}
	if e.DeadLetters, err = y.broker.Drain(ctx, broker.DeadLetters); err != nil {
		return err
	}
	e.OrderDeadLetters, err = y.broker.Drain(ctx, broker.OrderDeadLetters)
	return err
}
