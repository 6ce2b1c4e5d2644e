package page

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
)

func TestStatementsOfThePageAreShort(t *testing.T) {
	t.Parallel()
	db, err := OpenDatabase(t.Context(), servers.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var limit string
	err = db.InSnapshot(t.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&limit)
	})
	if err != nil || limit != "2s" {
		t.Errorf("a statement may take %q, error %v", limit, err)
	}
}
