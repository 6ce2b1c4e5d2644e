package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/forbench"
	"example.com/transactional-outbox/order-service/migrations"
)

const (
	filledPartitions = 12 // of published events
	turnedPartitions = 8  // how many are dropped during a run
)

// capacity is one run: a log of published events, the service, and a janitor that makes and drops
// partitions every second.
type capacity struct {
	*bench
	database
	length time.Duration // of the run
	width  time.Duration // of a partition
	oldest time.Time     // when the first partition begins
	db     *postgres.DB  // the janitor's only connection
	store  *forbench.Store
}

// measureCapacity places orders at a steady rate, first with an empty log and then with a full one.
// During a run, two thirds of the log are dropped.
func (b *bench) measureCapacity(ctx context.Context) error {
	for _, run := range []struct {
		name            string
		filled, seconds int
	}{{"empty", 0, b.CapacityEmpty}, {"full", b.CapacityEvents, b.CapacityTime}} {
		if err := b.capacityRun(ctx, run.name, run.filled, time.Duration(run.seconds)*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) capacityRun(ctx context.Context, name string, filled int, length time.Duration) error {
	return b.withDatabase(ctx, migrations.Files, func(ctx context.Context, d database) error {
		err := inSession(ctx, d.broker, func(s *rabbitmq.Session) error { return s.Declare(shortQueue()) })
		if err != nil {
			return err
		}
		c := capacity{bench: b, database: d, length: length, width: length / turnedPartitions}
		// The connection has the janitors' lock. By default the pool closes it after 30 idle minutes.
		url := d.url + "&pool_max_conn_idle_time=24h&pool_max_conn_lifetime=24h"
		if c.db, err = postgres.Open(ctx, url, 1, postgres.TxTimeout(10*time.Minute)); err != nil {
			return err
		}
		defer c.db.Close()
		c.store = forbench.NewStore(c.db)
		if err := c.takeJanitorLock(ctx); err != nil {
			return err
		}
		began := time.Now()
		if err := c.fillLog(ctx, filled); err != nil {
			return err
		}
		progress("capacity: %d events published in %s; %d orders/s and %d events/s for %s",
			filled, time.Since(began).Round(time.Second), b.CapacityRate, b.CapacityAdded, length)
		return b.withAPI(ctx, d, "serve", func(ctx context.Context, _ database, address string) error {
			return c.measure(ctx, name, address)
		})
	})
}

// shortQueue keeps few messages, because nothing consumes them.
func shortQueue() rabbitmq.Topology {
	t := boundQueue()
	t.Queues[0].Arguments = map[string]any{"x-max-length": 10_000}
	return t
}

// takeJanitorLock takes the janitors' lock, so that the service's own janitor does nothing.
func (c capacity) takeJanitorLock(ctx context.Context) error {
	return c.db.InTx(ctx, func(tx *postgres.Tx) error {
		return tx.Write("keeping the janitors' lock", "SELECT pg_advisory_lock(hashtext('outbox_prune'))", nil)
	})
}

// filledSQL fills a table without indexes, adds the indexes, and attaches the table as a partition.
// Each event belongs to an order of its own, and its id grows with time.
const filledSQL = `
CREATE TABLE outbox_events_%[1]s (LIKE outbox_events INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE TABLE outbox_published_%[1]s (LIKE outbox_published INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
INSERT INTO outbox_events_%[1]s (id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent, created_at)
SELECT (time || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid, i, 'order',
       (time || '7' || substr(hash, 17, 3) || '8' || substr(hash, 8, 15))::uuid, 1, 'order.created', payload,
       '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', at
FROM generate_series(0, %[2]d - 1) i,
LATERAL (SELECT timestamptz '%[3]s' + i * interval '%[4]d microseconds' / %[2]d AS at, md5(i::text) AS hash) h,
LATERAL (SELECT lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') AS time) t,
(SELECT jsonb_build_object('order_id', gen_random_uuid(), 'order_version', 1, 'customer_id', gen_random_uuid(),
   'customer_email', 'ada@example.com', 'product_id', 'sku123', 'quantity', 1, 'amount', 2999,
   'currency', 'GBP', 'status', 'pending', 'occurred_at', now()) AS payload) p;
INSERT INTO outbox_published_%[1]s (id, published_at) SELECT id, created_at FROM outbox_events_%[1]s;
ALTER TABLE outbox_events_%[1]s ADD PRIMARY KEY (id), ADD CHECK (%[5]s);
ALTER TABLE outbox_published_%[1]s ADD PRIMARY KEY (id), ADD CHECK (%[5]s);
CREATE INDEX ON outbox_events_%[1]s (aggregate_type, aggregate_id, aggregate_version);
ALTER TABLE outbox_events ATTACH PARTITION outbox_events_%[1]s FOR VALUES %[6]s;
ALTER TABLE outbox_published ATTACH PARTITION outbox_published_%[1]s FOR VALUES %[6]s`

// fillLog fills partitions of the past, two at a time.
func (c *capacity) fillLog(ctx context.Context, events int) error {
	now := time.Now().UTC().Truncate(time.Second)
	c.oldest = now.Add(-filledPartitions * c.width)
	all, filling := errgroup.WithContext(ctx)
	all.SetLimit(2)
	for i := range filledPartitions {
		from := c.oldest.Add(time.Duration(i) * c.width)
		first, end := firstID(from), firstID(from.Add(c.width))
		statements := fmt.Sprintf(filledSQL, fmt.Sprintf("filled%d", i), max(events/filledPartitions, 1), from.Format(time.RFC3339Nano), c.width.Microseconds(),
			fmt.Sprintf("id >= '%s' AND id < '%s'", first, end), fmt.Sprintf("FROM ('%s') TO ('%s')", first, end))
		all.Go(func() error {
			_, err := c.pool.Exec(filling, statements)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for made := "some"; made != ""; {
		var err error
		if made, err = c.store.MakePartition(ctx, c.width); err != nil {
			return err
		}
	}
	return c.settle(ctx)
}

// firstID returns the lowest UUIDv7 of a time.
func firstID(at time.Time) string {
	hex := fmt.Sprintf("%012x", at.UnixMilli()) + strings.Repeat("0", 20)
	return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:]}, "-")
}
