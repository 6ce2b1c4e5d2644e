package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox"
)

// database is a database with the schema of a service.
type database struct {
	url    string
	pool   *pgxpool.Pool
	broker string // URL of the virtual host for the same run, if there is one
	drop   func()
}

// withDatabase calls use with a new database and a new virtual host, and deletes both.
func (b *bench) withDatabase(ctx context.Context, schema postgres.Migrations, use func(ctx context.Context, d database) error) error {
	d, err := b.newDatabase(ctx, schema)
	if err != nil {
		return err
	}
	defer d.drop()
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return err
	}
	defer drop()
	d.broker = url
	return use(ctx, d)
}

func (b *bench) newDatabase(ctx context.Context, schema postgres.Migrations) (d database, err error) {
	name := b.newName()
	if err := b.Database.Execute(ctx, "postgres", "CREATE DATABASE "+name); err != nil {
		return d, err
	}
	d.url = b.Database.URL(name)
	if d.pool, err = pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", d.url, connections)); err != nil {
		return d, err
	}
	d.drop = func() {
		ctx, end := forCleanup(ctx)
		defer end()
		_ = b.Database.Execute(ctx, "postgres", "DROP DATABASE "+name+" WITH (FORCE)") // in the end the server is deleted as well
		d.pool.Close()
	}
	if err := schema.Migrate(ctx, d.url); err != nil {
		d.drop()
		return d, err
	}
	return d, nil
}

// orderEvents makes n events: eleven for ten orders, of which the last one is confirmed. The trace
// of one event in ten is sampled.
func orderEvents(n int) []outbox.Event {
	const perTen = 11
	events := make([]outbox.Event, n)
	for i := range events {
		order, version, topic, status := uuid.Must(uuid.NewV7()).String(), 1, "order.created", "pending"
		if i%perTen == perTen-1 {
			order, version, topic, status = events[i-1].AggregateID, 2, "order.confirmed", "confirmed"
		}
		trace := fmt.Sprintf("00-%032x-%016x-00", i+1, i+1)
		if i%10 == 0 {
			trace = fmt.Sprintf("00-%032x-%016x-01", i+1, i+1)
		}
		events[i] = outbox.Event{
			ID: uuid.Must(uuid.NewV7()), Topic: topic, Aggregate: "order", AggregateID: order, Version: version,
			Payload: orderPayload(order, version, status, fmt.Sprintf("ada@domain-%d.example", i%8)), Traceparent: trace,
		}
	}
	return events
}

func orderPayload(order string, version int, status, email string) []byte {
	payload, err := json.Marshal(map[string]any{
		"order_id": order, "order_version": version, "customer_id": uuid.NewString(), "customer_email": email,
		"product_id": "sku123", "quantity": 1, "amount": 2999, "currency": "GBP", "status": status, "occurred_at": time.Now().UTC(),
	})
	if err != nil {
		panic(err) // it has only texts, numbers and a time
	}
	return payload
}

// fill appends the events, and finishes the background work of that before the measurement.
func (d database) fill(ctx context.Context, events []outbox.Event) error {
	const atOnce = 1000 // the most that one Append takes
	for some := range slices.Chunk(events, atOnce) {
		err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error { return outbox.Append(ctx, tx, some...) })
		if err != nil {
			return err
		}
	}
	_, vacuumed := d.pool.Exec(ctx, "VACUUM ANALYZE")
	_, written := d.pool.Exec(ctx, "CHECKPOINT")
	return errors.Join(vacuumed, written)
}

// queryValue returns the only value of a query.
func queryValue[V any](ctx context.Context, d database, query string, args ...any) (V, error) {
	rows, _ := d.pool.Query(ctx, query, args...) // CollectExactlyOneRow returns the error
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[V])
}

// newestPublishedSQL looks up one row. queueEmptySQL may read many rows that are deleted but not yet
// vacuumed.
const (
	newestSQL          = `SELECT id::text FROM outbox_queue ORDER BY seq DESC LIMIT 1`
	newestPublishedSQL = `SELECT NOT EXISTS (SELECT FROM outbox_queue WHERE id = $1)`
	queueEmptySQL      = `SELECT NOT EXISTS (SELECT FROM outbox_queue)`
)

// awaitPublished returns when nothing is left to publish. It waits for the newest event first,
// because looking at the whole queue again and again would slow down what is measured.
func (d database) awaitPublished(ctx context.Context) error {
	newest, err := queryValue[string](ctx, d, newestSQL)
	if err == nil {
		err = d.await(ctx, newestPublishedSQL, newest)
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return d.await(ctx, queueEmptySQL)
}

// awaitTimeout is much longer than any wait here takes.
const awaitTimeout = 5 * time.Minute

// await returns when the query returns true.
func (d database) await(ctx context.Context, query string, args ...any) error {
	ctx, end := context.WithTimeoutCause(ctx, awaitTimeout, fmt.Errorf("not within %s: %s", awaitTimeout, query))
	defer end()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if is, err := queryValue[bool](ctx, d, query, args...); err != nil || is {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
