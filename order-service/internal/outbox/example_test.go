package outbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/migrations"
)

// The event goes into the transaction of what it tells of. A transaction that fails
// takes its event along.
func ExampleAppend() {
	servertest.Example(func(tb testing.TB) {
		ctx := tb.Context()
		db, _ := servertest.Migrated(tb, postgres.Migrations{Files: migrations.Files})
		errOutOfStock := errors.New("out of stock")

		for _, stock := range []int{1, 0} {
			err := db.InTx(ctx, func(tx *postgres.Tx) error {
				// The order itself is written here, with the same tx.
				event := outbox.Message{
					ID: uuid.New(), AggregateType: "order", AggregateID: uuid.New(), AggregateVersion: 1,
					EventKey: "order.created", Payload: []byte(`{"quantity": 1}`),
				}
				if err := outbox.Append(ctx, tx, event); err != nil {
					return err
				}
				if stock == 0 {
					return errOutOfStock
				}
				return nil
			})
			fmt.Println("error:", err)
		}

		claim, err := outbox.NewStore(db).Claim(ctx, "an example", 10, time.Minute)
		fmt.Println("events:", len(claim.Events), err)
	})
	// Output:
	// error: <nil>
	// error: out of stock
	// events: 1 <nil>
}

// One pass of a relay: claim, publish, mark what the broker confirmed, and give back the
// rest.
func ExampleStore() {
	servertest.Example(func(tb testing.TB) {
		ctx := tb.Context()
		db, _ := servertest.Migrated(tb, postgres.Migrations{Files: migrations.Files})
		store := outbox.NewStore(db)
		appended := db.InTx(ctx, func(tx *postgres.Tx) error {
			return errors.Join(outbox.Append(ctx, tx, message(uuid.New(), 1)), outbox.Append(ctx, tx, message(uuid.New(), 1)))
		})

		claim, err := store.Claim(ctx, "an example", 10, time.Minute)
		confirmed, rest := claim.Events[0].ID, claim.Events[1].ID // so says the broker
		marked := store.MarkPublished(ctx, []uuid.UUID{confirmed})
		held, released := store.Release(ctx, claim.Token, []uuid.UUID{rest})
		fmt.Println("claimed:", len(claim.Events), "still under our lease:", held, errors.Join(appended, err, marked, released))

		next, err := store.Claim(ctx, "another one", 10, time.Minute)
		fmt.Println("claimed next:", len(next.Events), "the one that was released:", next.Events[0].ID == rest, err)
	})
	// Output:
	// claimed: 2 still under our lease: 1 <nil>
	// claimed next: 1 the one that was released: true <nil>
}
