package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// What placing an order executes: see packages order and outbox.
const (
	selectProduct = `SELECT id, name, unit_price, currency, now() FROM products WHERE id = $1`
	insertOrder   = `
INSERT INTO orders (id, version, customer_id, customer_email, product_id, quantity, amount, currency, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	insertEvent = `
WITH older AS MATERIALIZED (
  SELECT id, status, available_at FROM outbox_events
  WHERE aggregate_type = $2 AND aggregate_id = $3 AND aggregate_version < $4
    AND status NOT IN ('published', 'discarded')
), failed AS MATERIALIZED (
  SELECT FROM outbox_events
  WHERE id = ANY (ARRAY(SELECT id FROM older WHERE status = 'failed')) AND status = 'failed'
  FOR SHARE
)
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent, available_at)
SELECT $1, $2, $3, $4, $5, $6, $7,
       CASE WHEN EXISTS (SELECT FROM failed) THEN 'infinity' ELSE greatest(now(), max(older.available_at)) END
FROM older WHERE older.status = 'pending' AND older.available_at < 'infinity'`
)

// pgxRun executes the statements of an order and nothing else: each of them is waited
// for, BEGIN and COMMIT too, as a program does that uses pgx without further thought.
func (b *bench) pgxRun(ctx context.Context) error {
	d, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer d.drop()
	var work []func(context.Context) error
	for range connections {
		conn, err := pgx.Connect(ctx, d.url)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		work = append(work, func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return placeBare(ctx, tx) })
		})
	}
	perSecond, err := repeat(ctx, b.seconds(), work)
	if err != nil {
		return err
	}
	b.samples.add("bare_pgx_per_s", perSecond)
	return nil
}

func placeBare(ctx context.Context, tx pgx.Tx) error {
	var product, name, currency string
	var price int64
	var now time.Time
	if err := tx.QueryRow(ctx, selectProduct, "sku123").Scan(&product, &name, &price, &currency, &now); err != nil {
		return err
	}
	order, err := uuid.NewV7()
	if err != nil {
		return err
	}
	customer := uuid.New()
	_, err = tx.Exec(ctx, insertOrder, order, 1, customer, "", product, 1, price, currency, "pending")
	if err != nil {
		return err
	}
	event, err := uuid.NewV7()
	if err != nil {
		return err
	}
	payload := fmt.Sprintf(`{"order_id":%q,"order_version":1,"customer_id":%q,"customer_email":"","product_id":"sku123",`+
		`"quantity":1,"amount":2999,"currency":"GBP","status":"pending","occurred_at":"2026-11-21T12:00:00.123456Z"}`, order, customer)
	_, err = tx.Exec(ctx, insertEvent, event, "order", order, 1, "order.created", payload,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	return err
}
