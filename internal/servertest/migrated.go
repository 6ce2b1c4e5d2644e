package servertest

import (
	"testing"
	"time"

	"example.com/transactional-outbox/internal/postgres"
)

// poolForTests is enough for the claimers and writers of one test.
const poolForTests = 16

// Migrated returns a database of this test's own with the schema of a service, and
// its URL.
func Migrated(tb testing.TB, schema postgres.Migrations) (*postgres.DB, string) {
	tb.Helper()
	url := Database(tb)
	db, err := postgres.Open(tb.Context(), url, poolForTests, postgres.TxTimeout(time.Minute)) // a test may fill a table in one
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	if _, err := schema.Apply(tb.Context(), db); err != nil {
		tb.Fatal(err)
	}
	return db, url
}
