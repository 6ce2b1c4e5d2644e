package audit

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/postgres"
)

// pruneSQL deletes the oldest rows. SKIP LOCKED lets several replicas share the work.
const pruneSQL = `
WITH pruned AS (
  DELETE FROM operator_decisions WHERE id = ANY (ARRAY(
    SELECT id FROM operator_decisions WHERE at < now() - @retention * interval '1 second'
    ORDER BY at LIMIT @limit FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*) FROM pruned`

// Prune deletes at most limit rows that are older than retention, and returns how many.
func (l *Log) Prune(ctx context.Context, retention time.Duration, limit int) (pruned int, err error) {
	err = l.db.InTx(ctx, func(tx *postgres.Tx) error {
		args := map[string]any{"retention": retention.Seconds(), "limit": limit}
		return tx.Gorm(ctx).Raw(pruneSQL, args).Scan(&pruned).Error
	})
	if err != nil {
		return 0, fmt.Errorf("pruning the operators' decisions: %w", err)
	}
	return pruned, nil
}

// KeepPruned prunes once a minute until ctx ends.
func (l *Log) KeepPruned(ctx context.Context, retention time.Duration) error {
	return postgres.KeepPruned(ctx, "operators' decisions", func(ctx context.Context, limit int) (int, error) {
		return l.Prune(ctx, retention, limit)
	})
}
