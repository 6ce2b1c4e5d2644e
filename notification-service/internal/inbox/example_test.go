package inbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

// A message that comes twice has its effect once: the inbox row and the effect are in one
// transaction.
func ExampleInbox_Record() {
	servers.Example(func(tb testing.TB) {
		ctx := tb.Context()
		db, _ := postgrestest.Migrated(tb, migrations.Schema)
		in := inbox.New(db, 30*24*time.Hour)
		message := inbox.Message{ID: uuid.New(), CreatedAt: time.Now()}

		for range 2 {
			err := db.InTx(ctx, func(tx pgx.Tx) error {
				results, err := in.Record(ctx, tx, []inbox.Message{message})
				if err != nil || results[0] != inbox.First {
					return err
				}
				fmt.Println("the effect is written here, with the same tx")
				return nil
			})
			fmt.Println("committed:", err == nil)
		}
	})
	// Output:
	// the effect is written here, with the same tx
	// committed: true
	// committed: true
}
