// Package postgrestest gives a test a database with the schema of a service.
package postgrestest

import (
	"testing"
	"time"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/test/env/servers"
)

// poolSize is enough for the claimers and writers of one test.
const poolSize = 16

// Migrated creates a database for this test with the schema of a service, and returns the
// database and its URL.
func Migrated(tb testing.TB, schema postgres.Migrations) (*postgres.DB, string) {
	tb.Helper()
	url := servers.Database(tb)
	// One minute, because a test may fill a table in one transaction.
	db, err := postgres.Open(tb.Context(), url, poolSize, postgres.TxTimeout(time.Minute))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	if _, err := schema.Apply(tb.Context(), db); err != nil {
		tb.Fatal(err)
	}
	return db, url
}
