package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// fillSQL commits each event in a transaction of its own, as orders do.
const fillSQL = `DO $$
DECLARE i int; e uuid; o uuid;
BEGIN
  SET LOCAL synchronous_commit = off;
  FOR i IN 1..%d LOOP
    o := gen_random_uuid();
    e := (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text || o), 1, 3)
          || '8' || substr(md5(o::text), 4, 15))::uuid;
    WITH event AS (
      INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, content_type, payload)
      VALUES (e, (SELECT current FROM outbox_ring), 'order', o::text, 1, 'order.created', 'application/json',
        convert_to(jsonb_build_object('order_id', o, 'order_version', 1,
        'customer_id', gen_random_uuid(), 'customer_email', 'ada@example.com', 'product_id', 'sku123', 'quantity', 1,
        'amount', 2999, 'currency', 'GBP', 'status', 'pending', 'occurred_at', now())::text, 'UTF8'))
      RETURNING *)
    INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes)
    SELECT id, seq, slot, aggregate, aggregate_id, version, topic, octet_length(payload) FROM event;
    COMMIT;
    SET LOCAL synchronous_commit = off;
  END LOOP;
END $$`

// drain measures how fast a relay publishes a backlog, from its connection to the broker on.
func (b *bench) drain(ctx context.Context, w way) error {
	progress("drain: %s", w.name)
	d, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer d.drop(ctx)
	if err := d.prepare(ctx, w); err != nil {
		return err
	}
	before, err := value[string](ctx, d, "SELECT pg_current_wal_lsn()::text")
	if err != nil {
		return err
	}
	if _, err := d.pool.Exec(ctx, fmt.Sprintf(fillSQL, *events)); err != nil {
		return err
	}
	written, err := value[float64](ctx, d, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)::float8", before)
	if err != nil {
		return err
	}
	b.add("log of an event without its order, bytes", written/float64(*events))
	if _, err := d.pool.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return err
	}
	if err := b.emptyQueue(ctx); err != nil {
		return err
	}
	used := b.cpu(nil)
	s, err := b.start(d, w.program, w.args, w.settings)
	if err != nil {
		return err
	}
	defer s.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	began, err := s.logged(ctx, "connected to the broker")
	if err != nil {
		return err
	}
	if err := d.awaitEmpty(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	b.addCPU("drain, "+w.name+": CPU µs an event, ", used, b.cpu(s), *events)
	b.add("drain, "+w.name+": events/s", float64(*events)/took.Seconds())
	return nil
}

// bare publishes the same number of messages without a database.
func (b *bench) bare(ctx context.Context) error {
	progress("bare publishing")
	if err := b.emptyQueue(ctx); err != nil {
		return err
	}
	messages := make([]publish.Message, *events)
	for i := range messages {
		id := uuid.NewString()
		messages[i] = publish.Message{
			ID: id, Destination: exchange, Topic: "order.created", Group: id, ContentType: "application/json", AppID: "order-service",
			Timestamp: time.Now(), Headers: map[string]any{"traceparent": ""}, Body: fmt.Appendf(nil, "%330d", i),
		}
	}
	return b.inSession(ctx, func(s *rabbitmq.Session) error { //nolint:contextcheck // publish.All bounds itself
		windows := make(chan []publish.Message, len(messages))
		for window := range slices.Chunk(messages, 500) {
			windows <- window
		}
		close(windows)
		used, began := b.cpu(nil), time.Now()
		var channels errgroup.Group
		for range 2 {
			channels.Go(func() error { return publishAll(s, windows) })
		}
		err := channels.Wait()
		b.add("bare publishing, 2 channels: events/s", float64(len(messages))/time.Since(began).Seconds())
		b.addCPU("bare publishing: CPU µs an event, ", used, b.cpu(nil), len(messages))
		return err
	})
}

func publishAll(s *rabbitmq.Session, windows <-chan []publish.Message) error {
	p, err := s.ForRelay("").NewPublisher(500)
	if err != nil {
		return err
	}
	defer p.Close()
	var errs []error
	for window := range windows {
		for _, result := range publish.All(p, window, time.Minute) {
			errs = append(errs, result.Err)
		}
	}
	return errors.Join(errs...)
}
