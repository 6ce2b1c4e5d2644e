package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/postgres"
)

// RunJanitor maintains the outbox once a minute until ctx ends. It makes and drops partitions,
// deletes old events that are not in one of them, probes keys without a route, and repairs parked
// events. It logs an error and tries again in the next minute.
func (s *Store) RunJanitor(ctx context.Context, retention time.Duration) error {
	both, ctx := errgroup.WithContext(ctx)
	pruning := &pruner{store: s, retention: retention}
	both.Go(func() error {
		return postgres.KeepPruned(ctx, "outbox", func(ctx context.Context, limit int) (int, error) {
			if !s.managePartitions(ctx, retention) {
				return 0, nil // the next minute drops that partition: do not delete its rows one by one
			}
			return pruning.prune(ctx, limit)
		})
	})
	both.Go(func() error { return s.repairEachMinute(ctx) })
	return both.Wait()
}

func (s *Store) repairEachMinute(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for after := uuid.Nil; ; {
		s.probeRoutes(ctx)
		after = s.repairParked(ctx, after)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
