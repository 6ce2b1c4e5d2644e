package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/notification-service/migrations"
)

// The service's defaults: how many batches it records at the same time, and messages in a batch.
const (
	recorders = 4
	batchSize = 64
)

// The statements of a consumer for a batch of new messages, in two transactions.
const (
	noteBatch = `
INSERT INTO processed_messages (message_id, processed_at)
SELECT id, now() FROM unnest($1::uuid[]) id ON CONFLICT (message_id) DO NOTHING RETURNING message_id`
	recordBatch = `
WITH arrived AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS a (id, order_id, details)
), progress AS (
  INSERT INTO order_progress AS p (order_id, last_version) SELECT order_id, 1 FROM arrived ORDER BY order_id
  ON CONFLICT (order_id) DO UPDATE SET last_version = greatest(p.last_version, excluded.last_version)
  RETURNING order_id
)
INSERT INTO notifications (message_id, order_id, order_version, event_key, recipient, order_details,
                           status, attempts, lease_token, lease_until)
SELECT a.id, a.order_id, 1, 'order.created', 'ada@example.com', cast(a.details AS jsonb),
       'sending', 1, $4, now() + interval '30 seconds'
FROM arrived a JOIN progress USING (order_id)
RETURNING message_id, status`
	markBatch = `
UPDATE notifications SET status = 'sent', sent_at = now(), lease_token = NULL, lease_until = NULL
WHERE message_id = ANY ($1) AND status <> 'sent' RETURNING message_id`
)

// bareBatchRun executes only these statements, for as many messages as the service gets.
func (b *bench) bareBatchRun(ctx context.Context) error {
	d, err := b.newDatabaseOf(ctx, migrations.Schema)
	if err != nil {
		return err
	}
	defer d.drop()
	perSecond, err := b.handleBare(ctx, d, recorders, min(batchSize, b.Messages), consumeBareBatch)
	b.samples.add("bare_batch_per_s", perSecond)
	return err
}

func consumeBareBatch(ctx context.Context, conn *pgx.Conn, messages int) error {
	ids, orders := make([][16]byte, messages), make([][16]byte, messages)
	details := make([]string, messages)
	for i := range messages {
		order := uuid.New()
		ids[i], orders[i], details[i] = uuid.New(), order, fmt.Sprintf(detailsFormat, order)
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := read(ctx, tx, noteBatch, ids); err != nil {
			return err
		}
		return read(ctx, tx, recordBatch, ids, orders, details, uuid.New())
	})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return read(ctx, tx, markBatch, ids) })
}
