package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
)

// A relay publishes what was committed. Here the destination is a function; package rabbitmq has
// one for RabbitMQ.
func ExampleRelay() {
	withDatabase(func(ctx context.Context, pool *pgxpool.Pool, _ *sql.DB) {
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		to := publish.Func(1, func(_ context.Context, m publish.Message) error {
			fmt.Printf("%s %s\n", m.Topic, m.Body)
			stop() // the relay records that this message is published, and ends
			return nil
		})
		relay, err := outbox.NewRelay(pool, to, outbox.RelayConfig{AppID: "orders"})
		if err != nil {
			fmt.Println(err)
			return
		}

		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return outbox.Append(ctx, tx, outbox.Event{Topic: "order.created", Payload: []byte(`{"quantity":1}`)})
		})
		fmt.Println("committed:", err)
		relay.Wake() // optional: otherwise the next poll finds it

		fmt.Println("stopped:", relay.Run(ctx))
	})
	// Output:
	// committed: <nil>
	// order.created {"quantity":1}
	// stopped: <nil>
}
