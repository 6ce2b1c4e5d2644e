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
	var due, published, recorded, waiting int
	err := sys.orderDB.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status IN ('pending', 'in_progress')),
		count(*) FILTER (WHERE status = 'published' AND topic LIKE 'order.%') FROM outbox_status`).Scan(&due, &published)
	if err != nil {
		return err
	}
	if due > 0 {
		return fmt.Errorf("%d events are not published", due)
	}
	err = sys.notificationDB.QueryRow(ctx, `SELECT (SELECT count(*) FROM processed_messages),
		(SELECT count(*) FROM outbox_queue WHERE failed_at IS NULL)`).Scan(&recorded, &waiting)
	if err != nil {
		return err
	}
	if waiting > 0 || recorded < published {
		return fmt.Errorf("%d of %d published events are recorded, and %d e-mails wait", recorded, published, waiting)
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
	e.DeadLetters, err = sys.broker.Drain(ctx, broker.DeadLetters)
	return err
}
