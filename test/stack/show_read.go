package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// databases has connections to both services' databases. Only a tool like this uses both.
type databases struct {
	order, notification *pgx.Conn
}

func connect(ctx context.Context, orderURL, notificationURL string) (*databases, error) {
	order, err := pgx.Connect(ctx, orderURL)
	if err != nil {
		return nil, fmt.Errorf("order-service's database: %w", err)
	}
	notification, err := pgx.Connect(ctx, notificationURL)
	if err != nil {
		_ = order.Close(ctx)
		return nil, fmt.Errorf("notification-service's database: %w", err)
	}
	return &databases{order: order, notification: notification}, nil
}

func (d *databases) close() {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	_ = d.order.Close(ctx)
	_ = d.notification.Close(ctx)
}

// read returns the order's events, the oldest first.
func (d *databases) read(ctx context.Context, orderID string) ([]event, error) {
	events, err := d.readOutbox(ctx, orderID)
	if err != nil {
		return nil, fmt.Errorf("order-service's database: %w", err)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("there is no order %s, or its events are older than the retention and were deleted", orderID)
	}
	for i := range events {
		if err := d.readInbox(ctx, &events[i]); err != nil {
			return nil, fmt.Errorf("notification-service's database: %w", err)
		}
	}
	return events, nil
}

// An event is committed with its order, so its created_at is the time of the order.
const outboxQuery = `
SELECT id::text, topic, status, created_at, published_at, traceparent, coalesce(failure_reason, '')
FROM outbox_status
WHERE aggregate = 'order' AND aggregate_id = $1
ORDER BY version`

func (d *databases) readOutbox(ctx context.Context, orderID string) ([]event, error) {
	rows, err := d.order.Query(ctx, outboxQuery, orderID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e event, err error) {
		err = row.Scan(&e.messageID, &e.topic, &e.outboxStatus, &e.committed, &e.published, &e.traceID, &e.failure)
		e.traceID = traceOf(e.traceID)
		return e, err
	})
}

const inboxQuery = `
SELECT m.processed_at, coalesce(e.status, 'superseded'), e.published_at, coalesce(e.failure_reason, '')
FROM processed_messages m
LEFT JOIN outbox_status e ON e.id = $1
WHERE m.message_id = cast($1 AS uuid)::text`

// readInbox adds the consumer's state of the event, and of its e-mail. There is none until it has
// processed the event. If there is no e-mail, a newer event of the order came first.
func (d *databases) readInbox(ctx context.Context, e *event) error {
	err := d.notification.QueryRow(ctx, inboxQuery, e.messageID).
		Scan(&e.consumed, &e.emailStatus, &e.sent, &e.failure)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// traceOf returns the trace id, the second field of a traceparent.
func traceOf(traceparent string) string {
	fields := strings.Split(traceparent, "-")
	if len(fields) != 4 {
		return "none"
	}
	return fields[1]
}
