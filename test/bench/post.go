package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	notifying "example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/env/services"
)

// connections is the number of clients of the API, and of connections of bare pgx.
const connections = 16

// measurePost places orders at full speed, with the relay in the same process, and then through group
// services. For comparison, bare pgx executes the statements of an order.
func (b *bench) measurePost(ctx context.Context) error {
	if err := b.withService(ctx, b.postRun); err != nil {
		return err
	}
	if err := b.withService(ctx, b.wholeWayRun); err != nil {
		return err
	}
	if b.Bare {
		return b.barePostRun(ctx)
	}
	return nil
}

// orderService is a running order-service with its relay.
type orderService struct {
	*services.Process
	database

	clients []client // of the API
}

// withService runs API and relay in one process, with a new database and a new virtual host with
// one queue for all events.
func (b *bench) withService(ctx context.Context, use func(ctx context.Context, o orderService) error) error {
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		if err := declareQueue(ctx, d.broker); err != nil {
			return err
		}
		s, err := b.serve(ctx, services.Orders, "serve", services.ConnectedToBroker, d)
		if err != nil {
			return err
		}
		defer end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
		listening, err := s.Await(ctx, services.TakingOrders)
		if err != nil {
			return err
		}
		clients, closeAll, err := dialAll(ctx, listening.Text("address"))
		if err != nil {
			return err
		}
		defer closeAll()
		return use(ctx, orderService{s, d, clients})
	})
}

// postRun measures until all events are published.
func (b *bench) postRun(ctx context.Context, o orderService) error {
	done := b.measure("post", o.Process)
	placed, err := o.place(ctx, seconds(b.Seconds), nil)
	if err != nil {
		return err
	}
	if err := o.awaitPublished(ctx); err != nil {
		return err
	}
	return done(placed)
}

// place places orders over all connections, at full speed or one for each tick, and returns their
// number. If the service is too slow for the ticks, some of them are lost.
func (o orderService) place(ctx context.Context, length time.Duration, ticks <-chan time.Time) (int, error) {
	var work []func(context.Context) error
	for _, c := range o.clients {
		work = append(work, func(ctx context.Context) error {
			if ticks != nil {
				<-ticks
			}
			return c.place(ctx)
		})
	}
	return repeat(ctx, length, work)
}

// repeat runs each function in a loop, all concurrently, and returns the number of calls.
func repeat(ctx context.Context, length time.Duration, work []func(context.Context) error) (int, error) {
	all, group := errgroup.WithContext(ctx)
	var done atomic.Int64
	began := time.Now()
	for _, do := range work {
		all.Go(func() error {
			for time.Since(began) < length && group.Err() == nil {
				if err := do(group); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err := all.Wait()
	return int(done.Load()), errors.Join(context.Cause(ctx), err)
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
	done := b.measure("bare_pgx")
	placed, err := repeat(ctx, seconds(b.Seconds), work)
	if err != nil {
		return err
	}
	return done(placed)
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

// wholeWayRun places orders at full speed through group services, each with its own database. It
// measures until all e-mails are in the log.
func (b *bench) wholeWayRun(ctx context.Context, o orderService) error {
	notifications, err := b.newDatabase(ctx, notifying.Schema)
	if err != nil {
		return err
	}
	defer notifications.drop()
	notifications.broker = o.broker
	s, err := b.serve(ctx, services.Notifications, "serve", services.TakingMessages, notifications)
	if err != nil {
		return err
	}
	defer end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
	done := b.measure("whole_way", o.Process, s)
	placed, err := o.place(ctx, seconds(b.Seconds), nil)
	if err != nil {
		return err
	}
	if err := o.awaitPublished(ctx); err != nil { // first, because counting reads the table
		return err
	}
	if err := notifications.await(ctx, `SELECT count(*) >= $1 FROM outbox_done WHERE status = 'published'`, placed); err != nil {
		return err
	}
	return done(placed)
}

const ordersPerSecond = 200

// latencySQL measures from the commit of the order. xmin is that commit's transaction, because no
// later one has updated the row.
const latencySQL = `
SELECT percentile_cont(0.5) WITHIN GROUP (
  ORDER BY extract(epoch FROM d.done_at - pg_xact_commit_timestamp(o.xmin))::float8 * 1000)
FROM orders o JOIN outbox_events e ON e.aggregate = 'order' AND e.aggregate_id = o.id::text JOIN outbox_done d ON d.id = e.id
WHERE o.created_at >= $1 AND d.status = 'published'`

// measurePaced places orders at a steady rate.
func (b *bench) measurePaced(ctx context.Context) error { return b.withService(ctx, b.pacedRun) }

func (b *bench) pacedRun(ctx context.Context, o orderService) error {
	const warmUp = 2 * time.Second
	ticker := time.NewTicker(time.Second / ordersPerSecond)
	defer ticker.Stop()
	if _, err := o.place(ctx, warmUp, ticker.C); err != nil {
		return err
	}
	warmedUpAt, err := queryValue[time.Time](ctx, o.database, "SELECT now()")
	if err != nil {
		return err
	}
	done := b.measure("paced", o.Process)
	placed, err := o.place(ctx, seconds(b.PacedSeconds), ticker.C)
	if err != nil {
		return err
	}
	if err := errors.Join(o.awaitPublished(ctx), done(placed)); err != nil {
		return err
	}
	median, err := queryValue[float64](ctx, o.database, latencySQL, warmedUpAt)
	b.samples.add("commit_to_publish_ms_p50", median)
	return err
}
