package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/chaos/broker"
)

const fullPolicy = "full"

// fillQueue limits the length of the queue and stops its consumers. Every event has this queue, so
// soon the broker refuses all of them. None may fail: they were first refused a moment ago.
func (sys *system) fillQueue(ctx context.Context) error {
	sys.allowed.Refusals = true
	if _, err := sys.rabbitmq.Ctl(ctx, "set_policy", fullPolicy, "^"+broker.Queue+"$", `{"max-length":20}`, "--apply-to", "queues"); err != nil {
		return err
	}
	for _, r := range sys.notificationServices {
		if err := sys.stopReplica(ctx, r); err != nil {
			return err
		}
	}
	return sleep(ctx, sys.scaled(4*time.Second))
}

// liftLimit fills the queue, and removes the limit while the queue is still full.
func (sys *system) liftLimit(ctx context.Context) error {
	if err := sys.fillQueue(ctx); err != nil {
		return err
	}
	_, err := sys.rabbitmq.Ctl(ctx, "clear_policy", fullPolicy)
	return err
}

// requireSoonPublished requires that all events are published while the queue may hold twenty.
func (sys *system) requireSoonPublished(ctx context.Context) (err error) {
	defer func() { _, _ = sys.rabbitmq.Ctl(context.WithoutCancel(ctx), "clear_policy", fullPolicy) }()
	soon, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := sys.awaitPublished(soon); err != nil {
		sys.reportViolation("P4", "%v", err)
	}
	sys.injected, err = sys.allowRefusedCopies(ctx)
	return err
}

// allowRefusedCopies permits duplicates of events that one queue refused: the broker had routed
// them to the tap. It returns how many were refused.
func (sys *system) allowRefusedCopies(ctx context.Context) (n int, err error) {
	for _, r := range sys.orderServices {
		refused, err := r.metric(ctx, "outbox_refused_total")
		if err != nil {
			return 0, err
		}
		n += int(refused)
	}
	sys.allowed.Duplicates += n
	return n, nil
}

// longDelays keep messages in the retry queues, so that the queues stay full.
var longDelays = []string{"RETRY_DELAYS=7s,8s,9s"}

// fillRetryQueues limits the retry queues to no message, while a dozen messages fail. They have no
// copy then, and stay with the consumer. The other messages must still have their effect.
func (sys *system) fillRetryQueues(ctx context.Context) error {
	const oneOf, failures = 5, 24 // each message fails with its batch, and then alone
	if _, err := sys.rabbitmq.Ctl(ctx, "set_policy", fullPolicy, `^notification-service\.retry\.`, `{"max-length":0}`, "--apply-to", "queues"); err != nil {
		return err
	}
	defer func() { _, _ = sys.rabbitmq.Ctl(context.WithoutCancel(ctx), "clear_policy", fullPolicy) }()
	mend, err := sys.refuseOrders(ctx, oneOf, failures)
	if err != nil {
		return err
	}
	for soon, n := time.Now().Add(recoveryTime), 0; n < failures && time.Now().Before(soon) && err == nil; {
		if n, err = sys.refusals(ctx); err == nil {
			err = sleep(ctx, 100*time.Millisecond)
		}
	}
	failed, mendErr := mend()
	if err := errors.Join(err, mendErr, sleep(ctx, sys.scaled(time.Second))); err != nil {
		return err
	}
	rows, _ := sys.orderDB.Query(ctx, `
		SELECT id::text FROM outbox_status WHERE status = 'published' AND hashtext(aggregate_id) % $1 <> 0`, oneOf)
	valid, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if err := sys.requireEffects(ctx, valid, 5*time.Second, "P9", "beside others that cannot be retried"); err != nil {
		return err
	}
	waiting, err := sys.broker.Ready(ctx, sys.retryQueues()...)
	sys.injected = max(0, sys.injected+failed/2-waiting)
	return err
}
