package postgres

import (
	"context"
	"log/slog"
	"time"
)

// Pruning deletes in small batches: each one is a short transaction that holds few
// locks, and vacuum keeps up with it.
const (
	pruneBatch    = 1000
	pruneInterval = time.Minute
)

// KeepPruned calls prune once a minute until ctx ends, each time as often as it
// deletes a whole batch of limit rows. Trouble is logged and waits for the next
// minute. What is pruned is for the log.
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
