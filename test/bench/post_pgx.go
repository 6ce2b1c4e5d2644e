package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The statements that place an order: see packages order and outbox.
const (
	selectProduct = `SELECT id, name, unit_price, currency, now() FROM products WHERE id = $1`
	insertOrder   = `
INSERT INTO orders (id, version, customer_id, customer_email, product_id, quantity, amount, currency, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	insertEvent = `
WITH event AS (
  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type, traceparent)
  SELECT $1, current, $2, $3, $4, $5, $6, 'application/json', $7 FROM outbox_ring
  RETURNING id, seq, slot, aggregate, aggregate_id, version, topic
)
INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes)
SELECT *, $8 FROM event`
)

// barePostRun executes only the statements of an order. It waits for each of them, also for BEGIN
// and COMMIT, as simple code with pgx does.
func (b *bench) barePostRun(ctx context.Context) error {
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
	_, err = tx.Exec(ctx, insertEvent, event, "order", order.String(), 1, "order.created", []byte(payload),
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", len(payload))
	return err
}
