package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/test/servicelog"
)

// measureNotify places orders at a steady rate through both services, and measures until each
// e-mail is sent. E-mails go to the log.
func (b *bench) measureNotify(ctx context.Context) error {
	for run := range b.Runs {
		progress("notify, run %d of %d: %d s at %d orders per second", run+1, b.Runs, b.LatencySeconds, ordersPerSecond)
		if err := b.withBothServices(ctx, b.notifyRun); err != nil {
			return err
		}
	}
	return nil
}

// withBothServices starts both services, each with its own database, and calls use with the API's
// address.
func (b *bench) withBothServices(ctx context.Context, use func(ctx context.Context, orders, notifications database, address string) error) error {
	return b.withService(ctx, func(ctx context.Context, orders database, address string) error {
		notifications, err := b.newDatabaseOf(ctx, migrations.Schema)
		if err != nil {
			return err
		}
		defer notifications.drop()
		s, err := b.serve(ctx, notificationService, "serve", notifications, orders.broker)
		if err != nil {
			return err
		}
		defer s.end() //nolint:contextcheck // cleanup must also run after ctx has ended
		if _, err := s.logged(ctx, servicelog.TakingMessages); err != nil {
			return err
		}
		return use(ctx, orders, notifications, address)
	})
}

const mailed = "SELECT count(*) FROM outbox_published"

func (b *bench) notifyRun(ctx context.Context, orders, notifications database, address string) error {
	warm, err := b.placeAtPace(ctx, orders, address)
	if err != nil {
		return err
	}
	placed, err := queryValue[int](ctx, orders, "SELECT count(*) FROM orders")
	if err != nil {
		return err
	}
	if err := notifications.awaitCount(ctx, mailed, placed); err != nil {
		return err
	}
	return b.addLatencies(ctx, orders, notifications, warm)
}

// addLatencies measures from the commit of the order to the time at which its e-mail was marked
// sent. Both databases are on one server, so both times come from one clock.
func (b *bench) addLatencies(ctx context.Context, orders, notifications database, since time.Time) error {
	commits, err := readTimes(ctx, orders, "SELECT id, pg_xact_commit_timestamp(xmin) FROM orders WHERE created_at >= $1", since)
	if err != nil {
		return err
	}
	sent, err := readTimes(ctx, notifications, "SELECT aggregate_id::uuid, published_at FROM outbox_status WHERE status = 'published'")
	if err != nil {
		return err
	}
	took := make([]float64, 0, len(commits))
	for id, committed := range commits {
		at, known := sent[id]
		if !known {
			return fmt.Errorf("the e-mail of order %s was never sent", id)
		}
		took = append(took, milliseconds(at.Sub(committed)))
	}
	slices.Sort(took)
	b.samples.add("order_to_notification_ms_p50", took[len(took)/2])
	b.samples.add("order_to_notification_ms_p99", took[len(took)*99/100])
	return nil
}

func readTimes(ctx context.Context, d database, query string, args ...any) (map[uuid.UUID]time.Time, error) {
	rows, _ := d.pool.Query(ctx, query, args...) // ForEachRow returns the error
	found := map[uuid.UUID]time.Time{}
	var id uuid.UUID
	var at time.Time
	_, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		found[id] = at
		return nil
	})
	return found, err
}
