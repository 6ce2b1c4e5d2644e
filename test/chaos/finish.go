package main

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/test/chaos/broker"
	"example.com/transactional-outbox/test/chaos/checker"
)

// awaitFinished waits until the services have finished all work. It returns what was left after
// PATIENCE.
func (sys *system) awaitFinished(ctx context.Context) (unfinished, err error) {
	for deadline := time.Now().Add(sys.Patience); time.Now().Before(deadline); {
		if unfinished = sys.unfinished(ctx); unfinished == nil {
			return nil, nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return fmt.Errorf("not finished after %s: %w", sys.Patience, unfinished), nil
}

// unfinished returns the work that is left, as an error.
func (sys *system) unfinished(ctx context.Context) error {
	var due, published, settled, recorded int
	err := sys.orderDB.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status IN ('pending', 'in_progress')),
		count(*) FILTER (WHERE status = 'published' AND topic LIKE 'order.%') FROM outbox_status`).Scan(&due, &published)
	if err != nil {
		return err
	}
	if due > 0 {
		return fmt.Errorf("%d events are not published", due)
	}
	if err := sys.endMailLeases(ctx); err != nil {
		return err
	}
	err = sys.notificationDB.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status IN ('sent', 'superseded', 'rejected')),
		count(*) FROM notifications`).Scan(&settled, &recorded)
	if err != nil {
		return err
	}
	if settled < recorded || recorded < published {
		return fmt.Errorf("%d of %d notifications of %d published events are settled", settled, recorded, published)
	}
	return sys.unfinishedQueues(ctx)
}

func (sys *system) unfinishedQueues(ctx context.Context) error {
	ready, err := sys.broker.Ready(ctx, append([]string{broker.Queue}, sys.retryQueues()...)...)
	if err == nil && ready > 0 {
		err = fmt.Errorf("%d messages wait in queues", ready)
	}
	if err != nil {
		return err
	}
	if len(sys.allowed.Malformed) == 0 {
		return nil
	}
	dead, err := sys.broker.Ready(ctx, broker.DeadLetters)
	if err == nil && dead < len(sys.allowed.Malformed) {
		err = fmt.Errorf("%d of %d malformed messages are dead letters", dead, len(sys.allowed.Malformed))
	}
	return err
}

// The lease of an e-mail lasts mailLease, and a running process renews it every 10 seconds. So a
// lease that was not renewed for endLeaseAfter belongs to a dead process. The suite ends it early.
const (
	mailLease     = 30 * time.Second
	endLeaseAfter = 12 * time.Second
)

const endMailLeasesSQL = `
UPDATE notifications SET lease_until = now()
WHERE status = 'sending' AND lease_until BETWEEN now() AND now() + $1::interval`

func (sys *system) endMailLeases(ctx context.Context) error {
	if sys.keepMailLeases {
		return nil
	}
	_, err := sys.notificationDB.Exec(ctx, endMailLeasesSQL, mailLease-endLeaseAfter)
	return err
}

// readQueues empties all queues. The consumers have stopped, so a missing message is lost.
func (sys *system) readQueues(ctx context.Context, e *checker.Evidence) (err error) {
	if e.Tap, err = sys.broker.Drain(ctx, broker.Tap); err != nil {
		return err
	}
	for _, queue := range append([]string{broker.Queue}, sys.retryQueues()...) {
		waiting, err := sys.broker.Drain(ctx, queue)
		if err != nil {
			return err
		}
		e.Waiting = append(e.Waiting, waiting...)
	}
	if e.DeadLetters, err = sys.broker.Drain(ctx, broker.DeadLetters); err != nil {
		return err
	}
	e.OrderDeadLetters, err = sys.broker.Drain(ctx, broker.OrderDeadLetters)
	return err
}
