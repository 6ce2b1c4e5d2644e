// Command consumer writes one notification for each event, however often it is delivered.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/inbox"
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
	consumer, err := rabbitmq.NewConsumer(os.Getenv("AMQP_URL"), rabbitmq.Queue{
		Name: "notifications", Exchange: "outbox.events", Topics: []string{"order.created"},
	}, inbox.Once(pool, "notifications", recordNotification))
	_, err2 := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS notifications (order_id text NOT NULL)")
	if err := errors.Join(err, err2, inbox.Migrate(ctx, pool)); err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// recordNotification is called once for each message id. After an error, the message is tried
// again.
func recordNotification(ctx context.Context, tx pgx.Tx, m rabbitmq.Message) error {
	var event struct{ Order string }
	if err := json.Unmarshal(m.Body, &event); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO notifications (order_id) VALUES ($1)", event.Order)
	return err
}
