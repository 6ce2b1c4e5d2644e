package outbox

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/postgres"
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

// KeepTidy prunes, and puts what is due or parked in the wrong place into the right
// one, once a minute until ctx ends. Trouble is logged and waits for the next time.
func (s *Store) KeepTidy(ctx context.Context, retention time.Duration) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		return postgres.KeepPruned(ctx, "outbox", func(ctx context.Context, limit int) (int, error) {
			return s.Prune(ctx, retention, limit)
		})
	})
	both.Go(func() error { return s.keepInPlace(ctx) })
	return both.Wait()
}
