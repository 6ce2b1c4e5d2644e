package inbox_test

import (
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/inbox"
)

// TestP5RecordTakesATransactionOfDatabaseSQL by outbox.FromSQL.
func TestP5RecordTakesATransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	db := stdlib.OpenDBFromPool(f.pool)
	t.Cleanup(func() { _ = db.Close() })
	for _, want := range []bool{true, false} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if first, err := inbox.Record(t.Context(), outbox.FromSQL(tx), "a", "1"); err != nil || first != want {
			t.Errorf("first %t, want %t: %v", first, want, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
}
