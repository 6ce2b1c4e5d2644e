package outbox_test

import (
	"testing"
	"time"

	"example.com/transactional-outbox/internal/postgres"
)

// TestAVacuumOfAPartitionDelaysNoNewPartition: autovacuum takes long for a large partition.
func TestAVacuumOfAPartitionDelaysNoNewPartition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.makePartitions()
	must(t, f.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		// The lock that VACUUM and ANALYZE take.
		must(t, tx.Gorm(t.Context()).Exec(`DO $$ BEGIN
			EXECUTE format('LOCK TABLE %I IN SHARE UPDATE EXCLUSIVE MODE', (SELECT events FROM outbox_partitions LIMIT 1));
		END $$`).Error)
		if made, err := f.store.MakePartition(t.Context(), 10*time.Hour); made == "" || err != nil {
			t.Errorf("made %q, error %v", made, err)
		}
		return nil
	}))
}
