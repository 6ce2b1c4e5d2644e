package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// trail is what became of this run's orders, as both databases and the mailbox have it.
type trail struct {
	messages                                []string // the ids of the events
	waiting, inProgress, published, failed  int      // events
	attempts                                int      // that events have spent
	notifications, sent, sendings, consumed int
	letters                                 int // e-mails
	twice                                   int // messages of which there is more than one e-mail
}

// eventsSQL: each order of an experiment has one event.
const eventsSQL = `
SELECT id::text, status, retry_count FROM outbox_events
WHERE aggregate_type = 'order' AND aggregate_id = ANY ($1) ORDER BY seq`

const effectsSQL = `
SELECT (SELECT count(*) FROM processed_messages WHERE message_id = ANY ($1)),
       count(*), count(*) FILTER (WHERE status = 'sent'), coalesce(sum(attempts), 0)
FROM notifications WHERE message_id = ANY ($1)`

// look reads it.
func (l *lab) look(ctx context.Context) (t trail, err error) {
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
	return t, l.lookForLetters(ctx, &t)
}

func (t *trail) count(status string) {
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

func (l *lab) lookForLetters(ctx context.Context, t *trail) error {
	all, err := l.mail.letters(ctx)
	for _, id := range t.messages {
		t.letters += all[id]
		if all[id] > 1 {
			t.twice++
		}
	}
	return err
}

// awaitArrival returns when all orders are published, and their e-mails sent.
func (l *lab) awaitArrival(ctx context.Context) error {
	n := len(l.placed)
	return l.await(ctx, patience, func(ctx context.Context) (string, error) {
		t, err := l.look(ctx)
		if err == nil && (t.published < n || t.sent < n || t.letters < n) {
			return fmt.Sprintf("%d of %d events are published, %d e-mails sent", t.published, n, t.letters), nil
		}
		return "", err
	})
}

// wantOneEach wants each order published, and told of once.
func (l *lab) wantOneEach(t trail) {
	n := len(l.placed)
	l.want("orders whose event is published", t.published, n)
	l.want("notifications", t.notifications, n)
	l.want("e-mails", t.letters, n)
	l.want("orders with more than one e-mail", t.twice, 0)
}
