package audit_test

import (
	"testing"
	"time"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/postgres"
)

func TestPruneDeletesOldDecisionsOnly(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		for range 5 {
			f.record(audit.New("ann", audit.CLI, audit.ByIDs), []string{"a"})
		}
		f.exec("UPDATE operator_decisions SET at = now() - interval '25 hours'")
		young := audit.New("ben", audit.CLI, audit.ByIDs)
		f.record(young, []string{"a"})
		f.exec("UPDATE operator_decisions SET at = now() - interval '23 hours' WHERE operator = 'ben'")
		for _, want := range []int{2, 2, 1, 0} {
			if n, err := f.Prune(f.Context(), 24*time.Hour, 2); err != nil || n != want {
				f.Errorf("pruned %d, error %v, want %d", n, err, want)
			}
		}
		if _, err := f.Get(f.Context(), young.Decision); err != nil {
			f.Error(err)
		}
	})
}

// TestPruneSkipsLockedRows: another replica that prunes has locked its rows.
func TestPruneSkipsLockedRows(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		for range 3 {
			f.record(audit.New("ann", audit.CLI, audit.ByIDs), []string{"a"})
		}
		f.exec("UPDATE operator_decisions SET at = now() - interval '25 hours'")
		f.inTx(func(tx *postgres.Tx) error {
			var locked []string
			err := tx.Gorm(f.Context()).Raw("SELECT id FROM operator_decisions LIMIT 1 FOR UPDATE").Scan(&locked).Error
			if n, pruneErr := f.Prune(f.Context(), 24*time.Hour, 10); pruneErr != nil || n != 2 {
				f.Errorf("pruned %d, error %v, want the 2 that are not locked", n, pruneErr)
			}
			return err
		})
	})
}
