package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// filledSlots is how many slots have published events. New events go to the other one.
const filledSlots = ringSlots - 1

// capacity is one run: a log of published events, and the service. Its janitor works once a minute,
// and empties a slot each time, because the bench makes the current slot look old.
type capacity struct {
	*bench
	database
	length time.Duration // of the run
}

const (
	day     = 24 * time.Hour
	tooOld  = 8 * day // older than the service's retention
	agedSQL = `UPDATE outbox_ring SET since = now() - interval '2 days' WHERE since > now() - interval '1 day'`
)

// measureCapacity places orders at a steady rate, first with an empty log and then with a full one.
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
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		err := inSession(ctx, d.broker, func(s *rabbitmq.Session) error { return s.Declare(shortQueue()) })
		if err != nil {
			return err
		}
		c := capacity{bench: b, database: d, length: length}
		began := time.Now()
		if err := c.fillLog(ctx, filled); err != nil {
			return err
		}
		progress("capacity: %d events published in %s; %d orders/s and %d events/s for %s",
			filled, time.Since(began).Round(time.Second), b.CapacityRate, b.CapacityAdded, length)
		s, err := b.serve(ctx, orderService, "serve", d, d.broker)
		if err != nil {
			return err
		}
		defer s.end() //nolint:contextcheck // cleanup must also run after ctx has ended
		return c.measure(ctx, name, s)
	})
}

// shortQueue keeps few messages, because nothing consumes them.
func shortQueue() rabbitmq.Topology {
	t := boundQueue()
	t.Queues[0].Arguments = map[string]any{"x-max-length": 10_000}
	return t
}

// filledSQL fills a slot without its indexes, and adds them again. Each event belongs to an order
// of its own, and its id grows with time.
const filledSQL = `
ALTER TABLE outbox_events_%[1]d DROP CONSTRAINT outbox_events_%[1]d_pkey;
ALTER TABLE outbox_published_%[1]d DROP CONSTRAINT outbox_published_%[1]d_pkey;
INSERT INTO outbox_events_%[1]d (id, seq, slot, aggregate, aggregate_id, version, topic, payload, content_type, traceparent, created_at)
SELECT (time || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid, i, %[1]d, 'order',
       (time || '7' || substr(hash, 17, 3) || '8' || substr(hash, 8, 15))::uuid::text, 1, 'order.created', payload, 'application/json',
       '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', at
FROM generate_series(0, %[2]d - 1) i,
LATERAL (SELECT timestamptz '%[3]s' + i * interval '%[4]d microseconds' / %[2]d AS at, md5(i::text) AS hash) h,
LATERAL (SELECT lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') AS time) t,
(SELECT convert_to(jsonb_build_object('order_id', gen_random_uuid(), 'order_version', 1, 'customer_id', gen_random_uuid(),
   'customer_email', 'ada@example.com', 'product_id', 'sku123', 'quantity', 1, 'amount', 2999,
   'currency', 'GBP', 'status', 'pending', 'occurred_at', now())::text, 'UTF8') AS payload) p;
INSERT INTO outbox_published_%[1]d (id, slot, published_at) SELECT id, slot, created_at FROM outbox_events_%[1]d;
ALTER TABLE outbox_events_%[1]d ADD PRIMARY KEY (id);
ALTER TABLE outbox_published_%[1]d ADD PRIMARY KEY (id)`

// fillLog fills the slots after the current one, the oldest events first, two at a time.
func (c capacity) fillLog(ctx context.Context, events int) error {
	if events == 0 {
		return nil
	}
	oldest := time.Now().UTC().Truncate(time.Second).Add(-tooOld - filledSlots*day)
	all, filling := errgroup.WithContext(ctx)
	all.SetLimit(2)
	for i := range filledSlots {
		from := oldest.Add(time.Duration(i) * day)
		statements := fmt.Sprintf(filledSQL, i+1, max(events/filledSlots, 1), from.Format(time.RFC3339Nano), day.Microseconds())
		all.Go(func() error {
			_, err := c.pool.Exec(filling, statements)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return c.settle(ctx)
}
