package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// orderState has the state of this run's orders in both databases and the mailbox.
type orderState struct {
	messages                               []string // ids of the events
	waiting, inProgress, published, failed int      // events
	attempts                               int      // spent by the events
	recorded                               int      // in notification-service's inbox
	appended, sent                         int      // in its outbox
	emails                                 int      // e-mails
	repeated                               int      // messages with more than one e-mail
}

// eventsSQL returns the events of the experiment's orders.
const eventsSQL = `
SELECT id::text, status, retry_count FROM outbox_status
WHERE aggregate = 'order' AND aggregate_id = ANY ($1) ORDER BY seq`

const effectsSQL = `
SELECT (SELECT count(*) FROM inbox_messages WHERE message_id = ANY ($1)),
       count(*), count(*) FILTER (WHERE status = 'published')
FROM outbox_status WHERE id::text = ANY ($1)`

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
	err = l.notifications.QueryRow(ctx, effectsSQL, t.messages).Scan(&t.recorded, &t.appended, &t.sent)
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
	n := l.events()
	return l.await(ctx, maxWait, func(ctx context.Context) (string, error) {
		t, err := l.readOrders(ctx)
		if err == nil && (t.published < n || t.sent < n || t.emails < n) {
			return fmt.Sprintf("%d of %d events are published, %d e-mails sent", t.published, n, t.emails), nil
		}
		return "", err
	})
}

// events is how many events this run's orders have.
func (l *lab) events() int { return len(l.placed) + l.confirmed }

// requireOneEach requires that each event is published, and has one effect and one e-mail.
func (l *lab) requireOneEach(t orderState) {
	n := l.events()
	l.requireEqual("published events", t.published, n)
	l.requireEqual("messages in the inbox", t.recorded, n)
	l.requireEqual("e-mails in the outbox", t.appended, n)
	l.requireEqual("e-mails that arrived", t.emails, n)
	l.requireEqual("messages with more than one e-mail", t.repeated, 0)
}
