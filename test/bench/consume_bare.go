package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/notification-service/migrations"
)

const (
	bareConnections = 8  // of bare pgx that handles one message at a time
	batchSize       = 64 // the default of CONSUMER_BATCH_SIZE
)

// bareSQL are the statements of a consumer, for any number of new messages in one transaction: the
// inbox, the progress of the orders, and the e-mails in the outbox. $1 has the ids.
var bareSQL = []string{`
INSERT INTO processed_messages (consumer, message_id) SELECT 'notification-service', id FROM unnest($1::text[]) id
ON CONFLICT (consumer, message_id) DO NOTHING RETURNING message_id`, `
INSERT INTO order_progress AS p (order_id, last_version) SELECT id::uuid, 1 FROM unnest($1::text[]) id ORDER BY id
ON CONFLICT (order_id) DO UPDATE SET last_version = greatest(p.last_version, excluded.last_version) RETURNING order_id`, `
WITH event AS (
  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type)
  SELECT id::uuid, (SELECT current FROM outbox_ring), 'order', id, 1, 'example.com', convert_to($2, 'UTF8'), 'application/json'
  FROM unnest($1::text[]) id
  RETURNING *
)` + queueSQL}

const bareBody = `{"type":"order.created","to":"ada@example.com","order_id":"01a21073-8cff-71eb-8ee2-0d633394fc52","order_version":1,` +
	`"product_id":"sku123","quantity":1,"amount":2999,"currency":"GBP","occurred_at":"2026-11-21T12:00:00.123456Z"}`

// bareConsumeRun executes only these statements, message by message.
func (b *bench) bareConsumeRun(ctx context.Context) error {
	return b.bareRun(ctx, "bare_consume_per_s", bareConnections, 1)
}

// bareBatchRun executes them for batches, over one connection, as the consumer has one.
func (b *bench) bareBatchRun(ctx context.Context) error {
	return b.bareRun(ctx, "bare_batch_per_s", 1, min(batchSize, b.Messages))
}

// bareRun handles as many messages as the service gets.
func (b *bench) bareRun(ctx context.Context, key string, connections, batch int) error {
	d, err := b.newDatabaseOf(ctx, migrations.Schema)
	if err != nil {
		return err
	}
	defer d.drop()
	all, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	began := time.Now()
	for range connections {
		all.Go(func() error {
			conn, err := pgx.Connect(ctx, d.url)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
			for taken.Add(int64(batch)) <= int64(b.Messages) {
				if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return recordBare(ctx, tx, batch) }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = all.Wait()
	b.samples.add(key, float64(b.Messages/batch*batch)/time.Since(began).Seconds())
	return err
}

func recordBare(ctx context.Context, tx pgx.Tx, messages int) error {
	ids := make([]string, messages)
	for i := range ids {
		ids[i] = uuid.NewString()
	}
	for _, sql := range bareSQL {
		values := []any{ids}
		if strings.Contains(sql, "$2") {
			values = append(values, bareBody)
		}
		rows, err := tx.Query(ctx, sql, values...)
		if err != nil {
			return err
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}
