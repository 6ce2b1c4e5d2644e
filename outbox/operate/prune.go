package operate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// Rows are deleted in small batches. Each batch is a short transaction with few locks, and vacuum
// can keep up.
const (
	pruneBatch    = 1000
	pruneInterval = time.Minute
)

// pruneSQL deletes the oldest rows. SKIP LOCKED lets several replicas share the work.
const pruneSQL = `
WITH pruned AS (
  DELETE FROM operator_decisions WHERE id = ANY (ARRAY(
    SELECT id FROM operator_decisions WHERE at < now() - cast(@retention AS float8) * interval '1 second'
    ORDER BY at LIMIT @limit FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*)::int FROM pruned`

// Prune deletes at most limit rows that are older than retention, and returns how many.
func (l *Log) Prune(ctx context.Context, retention time.Duration, limit int) (int, error) {
	a := args{"retention": retention.Seconds(), "limit": limit}
	pruned, err := read(ctx, l.store, pruneSQL, a, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("pruning the operators' decisions: %w", err)
	}
	return pruned[0], nil
}

// Run deletes what is older than retention, once a minute until ctx ends. Errors go to slog's
// default logger, and the next try is a minute later.
func (l *Log) Run(ctx context.Context, retention time.Duration) error {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		l.pruneAll(ctx, retention)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (l *Log) pruneAll(ctx context.Context, retention time.Duration) {
	pruned := 0
	for n := pruneBatch; n == pruneBatch && ctx.Err() == nil; pruned += n {
		var err error
		if n, err = l.Prune(ctx, retention, pruneBatch); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot prune the operators' decisions", "error", err)
		}
	}
	if pruned > 0 {
		slog.InfoContext(ctx, "pruned the operators' decisions", "rows", pruned)
	}
}
