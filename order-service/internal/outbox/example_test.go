package outbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

// The event is appended in the transaction of its order. If that fails, there is no event.
func ExampleAppend() {
	servers.Example(func(tb testing.TB) {
		ctx := tb.Context()
		db, _ := servers.Migrated(tb, postgres.Migrations{Files: migrations.Files})
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

// One pass of a relay: claim, publish, mark the confirmed events, and release the others.
func ExampleStore() {
	servers.Example(func(tb testing.TB) {
		ctx := tb.Context()
		db, _ := servers.Migrated(tb, postgres.Migrations{Files: migrations.Files})
		store := outbox.NewStore(db)
		appended := db.InTx(ctx, func(tx *postgres.Tx) error {
			return errors.Join(outbox.Append(ctx, tx, message(uuid.New(), 1)), outbox.Append(ctx, tx, message(uuid.New(), 1)))
		})

		claim, err := store.Claim(ctx, "an example", 10, time.Minute)
		confirmed, unconfirmed := claim.Events[0].ID, claim.Events[1].ID // by the broker
		marked := store.MarkPublished(ctx, uuid.Nil, []uuid.UUID{confirmed})
		held, released := store.Release(ctx, claim.Token)
		fmt.Println("claimed:", len(claim.Events), "still held:", held, errors.Join(appended, err, marked, released))

		next, err := store.Claim(ctx, "another example", 10, time.Minute)
		fmt.Println("claimed next:", len(next.Events), "the one that was released:", next.Events[0].ID == unconfirmed, err)
	})
	// Output:
	// claimed: 2 still held: true <nil>
	// claimed next: 1 the one that was released: true <nil>
}
