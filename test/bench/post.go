package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// connections is the number of clients of the API, and of connections of bare pgx.
const connections = 16

// measurePost places orders at full speed, with the relay in the same process. For comparison, bare
// pgx executes the statements of an order.
func (b *bench) measurePost(ctx context.Context) error {
	for run := range b.Runs {
		suite.Progress("post, run %d of %d: %d s over HTTP, %d s by bare pgx", run+1, b.Runs, b.Seconds, b.Seconds)
		if err := b.withService(ctx, b.postRun); err != nil {
			return err
		}
		if err := b.barePostRun(ctx); err != nil {
			return err
		}
	}
	b.addRatio("post_ratio", "post_per_s", "bare_pgx_per_s")
	return nil
}

// withService runs API and relay in one process, with a new database and a new virtual host with
// one queue for all events.
func (b *bench) withService(ctx context.Context, use func(ctx context.Context, d database, address string) error) error {
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		if err := declareQueue(ctx, d.broker); err != nil {
			return err
		}
		s, err := b.serve(ctx, services.Orders, "serve", d)
		if err != nil {
			return err
		}
		defer end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
		listening, err := s.Await(ctx, services.TakingOrders)
		if err != nil {
			return err
		}
		return use(ctx, d, listening.Text("address"))
	})
}

func (b *bench) postRun(ctx context.Context, d database, address string) error {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return err
	}
	defer closeAll()
	perSecond, err := placeFor(ctx, clients, seconds(b.Seconds))
	if err != nil {
		return err
	}
	backlog, err := queryValue[int](ctx, d, unpublished)
	if err != nil {
		return err
	}
	b.samples.add("post_per_s", perSecond)
	b.samples.add("sustained_backlog_events", float64(backlog))
	b.samples.add("sustained_backlog_s", float64(backlog)/perSecond)
	return nil
}

// placeFor places orders over all connections at full speed, and returns the orders per second.
func placeFor(ctx context.Context, clients []client, length time.Duration) (float64, error) {
	work := make([]func(context.Context) error, 0, len(clients))
	for _, c := range clients {
		work = append(work, c.place)
	}
	return repeat(ctx, length, work)
}

// repeat runs each function in a loop, all concurrently, and returns the calls per second.
func repeat(ctx context.Context, length time.Duration, work []func(context.Context) error) (float64, error) {
	all, ctx := errgroup.WithContext(ctx)
	done := make([]int, len(work))
	began := time.Now()
	for i, do := range work {
		all.Go(func() error {
			for time.Since(began) < length {
				if err := do(ctx); err != nil {
					return err
				}
				done[i]++
			}
			return nil
		})
	}
	err := all.Wait()
	sum := 0
	for _, n := range done {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds(), err
}

// barePostRun executes only the statements of an order. It waits for each of them, also for BEGIN
// and COMMIT, as simple code with pgx does.
func (b *bench) barePostRun(ctx context.Context) error {
	d, err := b.newDatabase(ctx, migrations.Schema)
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
	perSecond, err := repeat(ctx, seconds(b.Seconds), work)
	b.samples.add("bare_pgx_per_s", perSecond)
	return err
}

// The statements that order-service executes for an order, before it appends the event.
const (
	selectProduct = `SELECT unit_price, currency FROM products WHERE id = $1`
	insertOrder   = `
INSERT INTO orders (id, version, customer_id, customer_email, product_id, quantity, amount, currency, status)
VALUES ($1, 1, $2, '', $3, 1, $4, $5, 'pending')`
)

func placeBare(ctx context.Context, tx pgx.Tx) error {
	const product = "sku123"
	var currency string
	var price int64
	if err := tx.QueryRow(ctx, selectProduct, product).Scan(&price, &currency); err != nil {
		return err
	}
	order, err := uuid.NewV7()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insertOrder, order, uuid.New(), product, price, currency); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Topic: "order.created", Aggregate: "order", AggregateID: order.String(), Version: 1,
		Payload:     orderPayload(order.String(), 1, "pending", ""),
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
}
