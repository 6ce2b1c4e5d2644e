package main

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/forbench"
)

const (
	keptDays  = 8 // days of events in the outbox
	turnovers = 3 // how often all events are replaced
)

// measurePrune simulates days. On each day, a partition of published events is added and the oldest
// one is dropped. It compares the drops of the first days with those of the last ones.
func (b *bench) measurePrune(ctx context.Context) error {
	for run := range b.Runs {
		progress("prune, run %d of %d", run+1, b.Runs)
		if err := b.pruneDays(ctx); err != nil {
			return err
		}
	}
	b.samples.add("prune_flatness", b.samples.median("prune_ms_last")/b.samples.median("prune_ms_first"))
	return nil
}

func (b *bench) pruneDays(ctx context.Context) error {
	d, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer d.drop()
	db, err := postgres.Open(ctx, d.url, 1)
	if err != nil {
		return err
	}
	defer db.Close()
	store, now, first := forbench.NewStore(db), time.Now(), keptDays*turnovers
	for day := first + keptDays; day > 0; day-- {
		if err := d.publishDay(ctx, now, day, b.Pruned/keptDays); err != nil {
			return err
		}
		if day > first {
			continue
		}
		began := time.Now()
		dropped, err := store.DropPartition(ctx, daysAgo(day+keptDays-1)-time.Hour)
		if err != nil || dropped == "" {
			return fmt.Errorf("no partition was dropped on day %d: %w", day, err)
		}
		switch took := milliseconds(time.Since(began)); {
		case day > first-keptDays/2:
			b.samples.add("prune_ms_first", took)
		case day <= keptDays/2:
			b.samples.add("prune_ms_last", took)
		}
	}
	return nil
}

func daysAgo(days int) time.Duration { return time.Duration(days) * 24 * time.Hour }

// publishDay adds the partition of a day with its published events.
func (d database) publishDay(ctx context.Context, now time.Time, day, events int) error {
	for _, table := range []string{"outbox_events", "outbox_published"} {
		_, err := d.pool.Exec(ctx, fmt.Sprintf("CREATE TABLE %[1]s_%[2]d PARTITION OF %[1]s FOR VALUES FROM ('%[3]s') TO ('%[4]s')",
			table, day, firstID(now.Add(-daysAgo(day))), firstID(now.Add(-daysAgo(day-1)))))
		if err != nil {
			return err
		}
	}
	return d.publishDaysAgo(ctx, day, events)
}

// publishedSQL makes $1 events that were published $2 days ago, with ids of that time.
const publishedSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, created_at)
  SELECT (lpad(to_hex((extract(epoch FROM created) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid,
         'order', gen_random_uuid(), 1, 'order.created', jsonb_build_object('order', hash, 'text', repeat('x', 300)), created
  FROM generate_series(1, $1::int) i,
  LATERAL (SELECT now() - $2::int * interval '1 day' + i * interval '1 millisecond' AS created, md5(random()::text) AS hash) e
  RETURNING id, created_at
)
INSERT INTO outbox_published (id, published_at) SELECT id, created_at FROM event`

func (d database) publishDaysAgo(ctx context.Context, days, events int) error {
	if _, err := d.pool.Exec(ctx, publishedSQL, events, days); err != nil {
		return err
	}
	return d.settle(ctx)
}
