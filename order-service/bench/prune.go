package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

const (
	keptDays   = 8    // of events that stay in the outbox
	turnovers  = 2    // how often all of it is replaced
	prunedPage = 1000 // events that one statement looks at, as in the service
)

// measurePrune lets days go by, in each of which a day's events are published and those of
// the oldest day pruned, and compares the first day with the last one.
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
	day := keptDays * (turnovers + 1)
	last := day - keptDays
	for ; day > last; day-- {
		if err := d.publishDaysAgo(ctx, day, b.Pruned/keptDays); err != nil {
			return err
		}
	}
	for ; day > 0; day-- {
		if err := d.publishDaysAgo(ctx, day, b.Pruned/keptDays); err != nil {
			return err
		}
		took := samples{}
		if err := pruneDay(ctx, outbox.NewStore(db), day+keptDays, b.Pruned/keptDays, took); err != nil {
			return err
		}
		switch day {
		case last:
			b.samples.add("prune_ms_first", took.median("page"))
		case 1:
			b.samples.add("prune_ms_last", took.median("page"))
		}
	}
	return nil
}

// pruneDay prunes what was published so many days ago, and notes how long each page takes.
func pruneDay(ctx context.Context, store *outbox.Store, day, want int, took samples) error {
	retention := time.Duration(day)*24*time.Hour - 12*time.Hour
	pruned := 0
	for after, more := uuid.Nil, true; more; more = after != uuid.Nil {
		began := time.Now()
		n, last, err := store.Prune(ctx, retention, after, prunedPage)
		if err != nil {
			return err
		}
		if n > 0 {
			took.add("page", float64(time.Since(began).Microseconds())/1000)
		}
		pruned, after = pruned+n, last
	}
	if pruned != want {
		return fmt.Errorf("%d events pruned, want %d", pruned, want)
	}
	return nil
}

// publishedSQL makes $1 events of $2 days ago, with ids of that time.
const publishedSQL = `
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, created_at, available_at)
SELECT (lpad(to_hex((extract(epoch FROM created) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid,
       'order', gen_random_uuid(), 1, 'order.created', jsonb_build_object('order', hash, 'text', repeat('x', 300)), created, created
FROM generate_series(1, $1::int) i,
LATERAL (SELECT now() - $2::int * interval '1 day' + i * interval '1 millisecond' AS created, md5(random()::text) AS hash) e`

// publishDaysAgo updates each event once, as its mark does: the rows move.
func (d database) publishDaysAgo(ctx context.Context, days, events int) error {
	if _, err := d.pool.Exec(ctx, publishedSQL, events, days); err != nil {
		return err
	}
	if _, err := d.pool.Exec(ctx, "UPDATE outbox_events SET status = 'published', published_at = created_at WHERE status = 'pending'"); err != nil {
		return err
	}
	return d.settle(ctx)
}
