package postgres

import (
	"context"
	"log/slog"
	"time"
)

// Rows are deleted in small batches. Each batch is a short transaction with few locks, and vacuum
// can keep up.
const (
	pruneBatch    = 1000
	pruneInterval = time.Minute
)

// KeepPruned calls prune once a minute until ctx ends. It calls prune again at once if prune
// deletes a whole batch of limit rows. Errors are logged, and the next try is a minute later. What
// names the rows in the log.
func KeepPruned(ctx context.Context, what string, prune func(ctx context.Context, limit int) (int, error)) error {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		pruneAll(ctx, what, prune)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func pruneAll(ctx context.Context, what string, prune func(ctx context.Context, limit int) (int, error)) {
	pruned := 0
	for ctx.Err() == nil {
		n, err := prune(ctx, pruneBatch)
		pruned += n
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot prune", "what", what, "error", err)
		}
		if n < pruneBatch {
			break
		}
	}
	if pruned > 0 {
		slog.InfoContext(ctx, "pruned", "what", what, "rows", pruned)
	}
}
