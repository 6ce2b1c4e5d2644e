package inbox_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// A message that comes twice has its effect once. rabbitmq.NewConsumer calls Handle; with another
// broker, call it yourself, and acknowledge when it returns nil.
func ExampleOnce() {
	dbtest.Example(func(tb testing.TB) {
		ctx, pool := tb.Context(), dbtest.Pool(tb, dbtest.URL(tb))
		if err := inbox.Migrate(ctx, pool); err != nil {
			tb.Fatal(err)
		}
		in := inbox.Once(pool, "notifications", func(context.Context, pgx.Tx, message) error {
			fmt.Println("the effect is written here, with the same tx")
			return nil
		})
		for range 2 {
			if err := in.Handle(ctx, []message{"0198c0de"}); err != nil {
				tb.Fatal(err)
			}
			fmt.Println("handled: acknowledge it")
		}
	})
	// Output:
	// the effect is written here, with the same tx
	// handled: acknowledge it
	// handled: acknowledge it
}

// Record is the statement alone, for a transaction that is yours.
func ExampleRecord() {
	dbtest.Example(func(tb testing.TB) {
		ctx, pool := tb.Context(), dbtest.Pool(tb, dbtest.URL(tb))
		if err := inbox.Migrate(ctx, pool); err != nil {
			tb.Fatal(err)
		}
		for range 2 {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				first, err := inbox.Record(ctx, tx, "notifications", "0198c0de")
				fmt.Println("first:", first)
				return err
			})
			fmt.Println("committed:", err == nil)
		}
	})
	// Output:
	// first: true
	// committed: true
	// first: false
	// committed: true
}
