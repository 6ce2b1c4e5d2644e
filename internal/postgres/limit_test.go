package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/test/servers"
)

func TestTheServerEndsAStatementAfterItsTimeout(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), servers.Database(t), 1, postgres.StatementTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	err = db.InSnapshot(t.Context(), func(tx pgx.Tx) error {
		return postgres.Write(t.Context(), tx, "", "SELECT pg_sleep(30)", nil)
	})
	if err == nil || !postgres.Unavailable(err) {
		t.Errorf("error %v, want one that says that the database is too slow", err)
	}
}
