package postgres_test

import (
	"sync"
	"testing"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
)

// TestReplicasMayGrantTogether starts several replicas together, many times. Each start writes the
// same rows of the catalogue.
func TestReplicasMayGrantTogether(t *testing.T) {
	t.Parallel()
	const replicas, starts = 4, 25
	granting := notes
	granting.Grants = "DO $$ BEGIN REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC; GRANT SELECT ON notes TO PUBLIC; END $$"
	_, url := postgrestest.Migrated(t, granting)
	var together sync.WaitGroup
	for range replicas {
		db := open(t, url)
		together.Go(func() { startAgain(t, granting, db, starts) })
	}
	together.Wait()
}

func startAgain(t *testing.T, m postgres.Migrations, db *postgres.DB, times int) {
	for range times {
		if _, err := m.Apply(t.Context(), db); err != nil {
			t.Error(err)
			return
		}
	}
}
