// Command publisher saves orders and publishes their events. This is all that a service needs.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	if stop(); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	broker := rabbitmq.NewBroker(os.Getenv("AMQP_URL"), "outbox.events")
	relay, err := outbox.NewRelay(pool, broker, outbox.RelayConfig{})
	_, err2 := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, version int NOT NULL)")
	if err := errors.Join(err, err2, outbox.Migrate(ctx, pool)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return relay.Run(ctx) })
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return saveOrder(ctx, tx, rand.Text()) }); err != nil {
			log.Print("rolled back, so nothing is published: ", err)
		}
		relay.Wake() // optional: published within milliseconds instead of at the next poll
	}
	return group.Wait()
}

func saveOrder(ctx context.Context, tx pgx.Tx, id string) error {
	if _, err := tx.Exec(ctx, "INSERT INTO orders (id, version) VALUES ($1, 1)", id); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Topic: "order.created", Aggregate: "order", AggregateID: id, Version: 1,
		Payload: fmt.Appendf(nil, `{"order":%q}`, id),
	})
}
