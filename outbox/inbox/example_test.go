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

// A handler for a whole batch can write its effects with one statement.
func ExampleOnceBatch() {
	dbtest.Example(func(tb testing.TB) {
		ctx, pool := tb.Context(), dbtest.Pool(tb, dbtest.URL(tb))
		if err := inbox.Migrate(ctx, pool); err != nil {
			tb.Fatal(err)
		}
		in := inbox.OnceBatch(pool, "notifications", func(_ context.Context, _ pgx.Tx, messages []message) error {
			fmt.Println("new:", messages)
			return nil
		})
		for _, batch := range [][]message{{"1", "2"}, {"2", "3"}} {
			if err := in.Handle(ctx, batch); err != nil {
				tb.Fatal(err)
			}
		}
	})
	// Output:
	// new: [1 2]
	// new: [3]
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
