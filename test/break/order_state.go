package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// orderState has the state of this run's orders in both databases and the mailbox.
type orderState struct {
	messages                                []string // ids of the events
	waiting, inProgress, published, failed  int      // events
	attempts                                int      // spent by the events
	notifications, sent, sendings, consumed int
	emails                                  int // e-mails
	repeated                                int // messages with more than one e-mail
}

// eventsSQL returns one event for each order of the experiment.
const eventsSQL = `
SELECT id::text, status, retry_count FROM outbox_status
WHERE aggregate = 'order' AND aggregate_id = ANY ($1) ORDER BY seq`

const effectsSQL = `
SELECT (SELECT count(*) FROM processed_messages WHERE message_id = ANY ($1)),
       count(*), count(*) FILTER (WHERE status = 'sent'), coalesce(sum(attempts), 0)
FROM notifications WHERE message_id = ANY ($1)`

// readOrders reads the state of this run's orders.
func (l *lab) readOrders(ctx context.Context) (t orderState, err error) {
	rows, err := l.orders.Query(ctx, eventsSQL, l.placed)
	if err != nil {
		return t, fmt.Errorf("order-service's database: %w", err)
	}
	var id, status string
	var attempts int
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &attempts}, func() error {
		t.messages = append(t.messages, id)
		t.attempts += attempts
		t.count(status)
		return nil
	})
	if err != nil {
		return t, fmt.Errorf("order-service's database: %w", err)
	}
	err = l.notifications.QueryRow(ctx, effectsSQL, t.messages).Scan(&t.consumed, &t.notifications, &t.sent, &t.sendings)
	if err != nil {
		return t, fmt.Errorf("notification-service's database: %w", err)
	}
	return t, l.countEmails(ctx, &t)
}

func (t *orderState) count(status string) {
	switch status {
	case "pending":
		t.waiting++
	case "in_progress":
		t.inProgress++
	case "published":
		t.published++
	default:
		t.failed++
	}
}

func (l *lab) countEmails(ctx context.Context, t *orderState) error {
	all, err := l.mail.emails(ctx)
	for _, id := range t.messages {
		t.emails += all[id]
		if all[id] > 1 {
			t.repeated++
		}
	}
	return err
}

// awaitArrival waits until all events are published and their e-mails are sent.
func (l *lab) awaitArrival(ctx context.Context) error {
	n := len(l.placed)
	return l.await(ctx, maxWait, func(ctx context.Context) (string, error) {
		t, err := l.readOrders(ctx)
		if err == nil && (t.published < n || t.sent < n || t.emails < n) {
			return fmt.Sprintf("%d of %d events are published, %d e-mails sent", t.published, n, t.emails), nil
		}
		return "", err
	})
}

// requireOneEach requires that each event is published, with one notification and one e-mail.
func (l *lab) requireOneEach(t orderState) {
	n := len(l.placed)
	l.requireEqual("orders whose event is published", t.published, n)
	l.requireEqual("notifications", t.notifications, n)
	l.requireEqual("e-mails", t.emails, n)
	l.requireEqual("orders with more than one e-mail", t.repeated, 0)
}
