package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/publish"
)

// The event is appended in the transaction of its order. If that fails, there is no event.
func ExampleAppend() {
	withDatabase(func(ctx context.Context, pool *pgxpool.Pool, _ *sql.DB) {
		placeOrder := func(id string, stock int) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				// The order itself is written here, with the same tx.
				err := outbox.Append(ctx, tx, outbox.Event{
					Topic: "order.created", Aggregate: "order", AggregateID: id, Version: 1, Payload: []byte(`{"quantity":1}`),
				})
				if err != nil {
					return err
				}
				if stock == 0 {
					return errors.New("out of stock")
				}
				return nil
			})
		}
		fmt.Println("order 17:", placeOrder("17", 1))
		fmt.Println("order 18:", placeOrder("18", 0))

		rows, _ := pool.Query(ctx, "SELECT aggregate_id || ' ' || status || ' ' || payload FROM outbox_status")
		events, err := pgx.CollectRows(rows, pgx.RowTo[string])
		fmt.Println(events, err)
	})
	// Output:
	// order 17: <nil>
	// order 18: out of stock
	// [17 pending {"quantity":1}] <nil>
}

// With database/sql, FromSQL adapts the transaction. With sqlx, give it the *sqlx.Tx; with bun, the
// *sql.Tx inside: outbox.FromSQL(bunTx.Tx).
func ExampleFromSQL() {
	withDatabase(func(ctx context.Context, pool *pgxpool.Pool, db *sql.DB) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit

		// The order itself is written here, with the same tx.
		err = outbox.Append(ctx, outbox.FromSQL(tx), outbox.Event{Topic: "order.created", Payload: []byte(`{"quantity":1}`)})
		fmt.Println("appended:", err)
		fmt.Println("committed:", tx.Commit())

		var topic string
		err = pool.QueryRow(ctx, "SELECT topic FROM outbox_status").Scan(&topic)
		fmt.Println(topic, err)
	})
	// Output:
	// appended: <nil>
	// committed: <nil>
	// order.created <nil>
}

// A relay publishes what was committed. Here the destination is a function; package rabbitmq has
// one for RabbitMQ.
func ExampleRelay() {
	withDatabase(func(ctx context.Context, pool *pgxpool.Pool, _ *sql.DB) {
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		to := publish.Func(func(_ context.Context, m publish.Message) error {
			fmt.Printf("%s %s\n", m.Topic, m.Body)
			stop() // the relay records that this message is published, and ends
			return nil
		}, publish.FuncConfig{OneDestination: true, Calls: 1})
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

// withDatabase runs an Example with a new database that has the tables of the outbox.
func withDatabase(run func(ctx context.Context, pool *pgxpool.Pool, db *sql.DB)) {
	dbtest.Example(func(tb testing.TB) {
		url := dbtest.URL(tb)
		pool := dbtest.Pool(tb, url)
		if _, err := pool.Exec(tb.Context(), dbtest.Schema(tb), pgx.QueryExecModeSimpleProtocol); err != nil {
			tb.Fatal(err)
		}
		db, err := sql.Open("pgx", url)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = db.Close() })
		run(tb.Context(), pool, db)
	})
}
