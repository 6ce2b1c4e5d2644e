package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/notification-service/migrations"
)

// measureNotify takes orders at a steady pace with both services, and follows each one
// to its e-mail, which goes to the log.
func (b *bench) measureNotify(ctx context.Context) error {
	for run := range b.Runs {
		progress("notify, run %d of %d: %d s at %d orders per second", run+1, b.Runs, b.LatencySeconds, ordersPerSecond)
		if err := b.withService(ctx, b.notifyRun); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) notifyRun(ctx context.Context, orders database, address string) error {
	notifications, err := b.newDatabaseOf(ctx, migrations.Files)
	if err != nil {
		return err
	}
	defer notifications.drop()
	s, err := b.serve(ctx, notificationService, "serve", notifications, orders.broker)
	if err != nil {
		return err
	}
	defer s.end() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
	if _, err := s.logged(ctx, "taking messages"); err != nil {
		return err
	}
	warm, err := b.placeAtPace(ctx, orders, address)
	if err != nil {
		return err
	}
	placed, err := one[int](ctx, orders, "SELECT count(*) FROM orders")
	if err != nil {
		return err
	}
	if err := notifications.awaitCount(ctx, finished, placed); err != nil {
		return err
	}
	return b.addLatencies(ctx, orders, notifications, warm)
}

// addLatencies counts from the commit of the order's row to the moment at which its
// e-mail is noted as sent. One server has both databases, and so one clock.
func (b *bench) addLatencies(ctx context.Context, orders, notifications database, since time.Time) error {
	commits, err := times(ctx, orders, "SELECT id, pg_xact_commit_timestamp(xmin) FROM orders WHERE created_at >= $1", since)
	if err != nil {
		return err
	}
	sent, err := times(ctx, notifications, "SELECT order_id, sent_at FROM notifications WHERE status = 'sent'")
	if err != nil {
		return err
	}
	milliseconds := make([]float64, 0, len(commits))
	for id, committed := range commits {
		at, known := sent[id]
		if !known {
			return fmt.Errorf("order %s was never sent", id)
		}
		milliseconds = append(milliseconds, float64(at.Sub(committed).Microseconds())/1000)
	}
	slices.Sort(milliseconds)
	b.samples.add("order_to_notification_ms_p50", milliseconds[len(milliseconds)/2])
	b.samples.add("order_to_notification_ms_p99", milliseconds[len(milliseconds)*99/100])
	return nil
}

func times(ctx context.Context, d database, query string, args ...any) (map[uuid.UUID]time.Time, error) {
	rows, _ := d.pool.Query(ctx, query, args...) // its error comes out of rows
	found := map[uuid.UUID]time.Time{}
	var id uuid.UUID
	var at time.Time
	_, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		found[id] = at
		return nil
	})
	return found, err
}
