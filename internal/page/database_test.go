package page

import (
	"testing"

	"example.com/transactional-outbox/internal/postgres"
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
	err = db.InSnapshot(t.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(t.Context()).Raw("SHOW statement_timeout").Scan(&limit).Error
	})
	if err != nil || limit != "2s" {
		t.Errorf("a statement may take %q, error %v", limit, err)
	}
}
