package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Pruning deletes in small batches: each one is a short transaction that holds few
// locks, and vacuum keeps up with it.
const (
	pruneBatch    = 1000
	pruneInterval = time.Minute
)

// pruneSQL deletes what was finished long ago. The condition on created_at says
// nothing new (an event is finished after it was created); it is there for the
// index. SKIP LOCKED lets the janitors of several replicas share the work.
const pruneSQL = `
DELETE FROM outbox_events WHERE id IN (
  SELECT id FROM outbox_events
  WHERE status IN ('published', 'discarded')
    AND created_at < now() - @retention * interval '1 second'
    AND coalesce(published_at, failed_at) < now() - @retention * interval '1 second'
  LIMIT @limit
  FOR UPDATE SKIP LOCKED)`

// Prune deletes at most limit events that were published or discarded longer than
// retention ago, and returns how many. Failed events stay until somebody decides.
func (s *Store) Prune(ctx context.Context, retention time.Duration, limit int) (int, error) {
	n, err := s.exec(ctx, pruneSQL, map[string]any{"retention": retention.Seconds(), "limit": limit})
	if err != nil {
		return 0, fmt.Errorf("pruning the outbox: %w", err)
	}
	return n, nil
}

// KeepPruned prunes once a minute until ctx ends. Trouble is logged and waits for the
// next time.
func (s *Store) KeepPruned(ctx context.Context, retention time.Duration) error {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		s.pruneAll(ctx, retention)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Store) pruneAll(ctx context.Context, retention time.Duration) {
	pruned := 0
	for ctx.Err() == nil {
		n, err := s.Prune(ctx, retention, pruneBatch)
		pruned += n
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot prune the outbox", "error", err)
		}
		if n < pruneBatch {
			break
		}
	}
	if pruned > 0 {
		slog.InfoContext(ctx, "outbox pruned", "events", pruned)
	}
}
