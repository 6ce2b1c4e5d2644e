package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/notification-service/migrations"
)

// The statements of a consumer that handles one message at a time, in three transactions.
const (
	noteMessage = `
WITH age AS (
  SELECT $2 OR cast($3 AS timestamptz) > now() - $4 * interval '1 second' AS fits
), noted AS (
  INSERT INTO processed_messages (message_id, processed_at)
  SELECT $1, greatest(now(), cast($3 AS timestamptz)) FROM age WHERE fits
  ON CONFLICT (message_id) DO NOTHING
  RETURNING message_id
)
SELECT CASE
  WHEN EXISTS (SELECT FROM noted) THEN 1
  WHEN fits OR EXISTS (SELECT FROM processed_messages WHERE message_id = $1) THEN 2
  ELSE 3
END FROM age`
	raiseProgress = `
INSERT INTO order_progress AS p (order_id, last_version) VALUES ($1, $2)
ON CONFLICT (order_id) DO UPDATE SET last_version = greatest(p.last_version, excluded.last_version)
RETURNING last_version`
	recordNotification = `
INSERT INTO notifications (message_id, order_id, order_version, event_key, recipient, order_details, status)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (message_id) DO NOTHING`
	startNotification = `
UPDATE notifications n
SET status      = CASE WHEN n.order_version < p.last_version THEN 'superseded' ELSE 'sending' END,
    attempts    = n.attempts + CASE WHEN n.order_version < p.last_version THEN 0 ELSE 1 END,
    lease_token = CASE WHEN n.order_version < p.last_version THEN NULL ELSE cast($2 AS uuid) END,
    lease_until = CASE WHEN n.order_version < p.last_version THEN NULL ELSE now() + $3 * interval '1 second' END
FROM order_progress p
WHERE n.message_id = $1 AND p.order_id = n.order_id
  AND (n.status IN ('pending', 'rejected') OR (n.status = 'sending' AND n.lease_until <= now()))`
	readNotification = `
SELECT message_id, order_id, event_key, recipient, order_details, status, lease_token, now() AS started_at
FROM notifications WHERE message_id = $1`
	markSent = `
UPDATE notifications SET status = 'sent', sent_at = now(), lease_token = NULL, lease_until = NULL, failure_reason = NULL
WHERE message_id = $1 AND status <> 'sent'
RETURNING coalesce(extract(epoch FROM now() - cast(order_details->>'occurred_at' AS timestamptz))::float8, 'NaN')`
)

// bareConsumeRun executes only these statements, for as many messages as the service gets.
func (b *bench) bareConsumeRun(ctx context.Context) error {
	d, err := b.newDatabaseOf(ctx, migrations.Schema)
	if err != nil {
		return err
	}
	defer d.drop()
	perSecond, err := b.handleBare(ctx, d, consumers, 1, func(ctx context.Context, conn *pgx.Conn, _ int) error {
		return consumeBare(ctx, conn)
	})
	b.samples.add("bare_consume_per_s", perSecond)
	return err
}

// handleBare calls handle for batches of messages, over several connections, until all messages are
// handled. It returns the messages per second.
func (b *bench) handleBare(ctx context.Context, d database, connections, batch int,
	handle func(ctx context.Context, conn *pgx.Conn, messages int) error,
) (float64, error) {
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
				if err := handle(ctx, conn, batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := all.Wait()
	return float64(b.Messages/batch*batch) / time.Since(began).Seconds(), err
}

const detailsFormat = `{"order_id":%q,"order_version":1,"customer_email":"ada@example.com","product_id":"sku123","quantity":1,` +
	`"amount":2999,"currency":"GBP","occurred_at":"2026-11-21T12:00:00.123456Z"}`

func consumeBare(ctx context.Context, conn *pgx.Conn) error {
	message, order, token := uuid.New(), uuid.New(), uuid.New()
	details := fmt.Sprintf(detailsFormat, order)
	steps := []func(pgx.Tx) error{
		func(tx pgx.Tx) error {
			if err := read(ctx, tx, noteMessage, message, false, time.Now(), (720 * time.Hour).Seconds()); err != nil {
				return err
			}
			if err := read(ctx, tx, raiseProgress, order, 1); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, recordNotification, message, order, 1, "order.created", "ada@example.com", details, "pending")
			return err
		},
		func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, startNotification, message, token, 60); err != nil {
				return err
			}
			return read(ctx, tx, readNotification, message)
		},
		func(tx pgx.Tx) error { return read(ctx, tx, markSent, message) },
	}
	for _, step := range steps {
		if err := pgx.BeginFunc(ctx, conn, step); err != nil {
			return err
		}
	}
	return nil
}

// read executes a query and reads its rows.
func read(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if _, err := rows.Values(); err != nil {
			return err
		}
	}
	return rows.Err()
}
