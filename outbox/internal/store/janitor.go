package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// repairPage is how many events the janitor looks at each time. Most of them need no repair.
const repairPage = 5000

// RunJanitor maintains the tables until ctx ends: it deletes what was done longer ago than the
// retention, and repairs events that nothing else would make due. It does so once a minute, and
// more often if the retention is short. It logs an error and tries again the next time, and calls
// failed if it could not delete. Any number may run.
func (s *Store) RunJanitor(ctx context.Context, retention time.Duration, failed func()) error {
	tick := time.NewTicker(min(time.Minute, max(retention/4, time.Millisecond)))
	defer tick.Stop()
	var from place
	for after := uuid.Nil; ; {
		var err error
		if from, err = s.deleteOld(ctx, retention, from); err != nil && ctx.Err() == nil {
			failed()
		}
		s.report(ctx, "cannot delete old events", err)
		for repaired := 1; repaired > 0; {
			after, repaired = s.repair(ctx, after)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// repair reads one page only: it expects nothing to repair.
func (s *Store) repair(ctx context.Context, after uuid.UUID) (last uuid.UUID, repaired int) {
	repaired, last, err := s.Repair(ctx, after, repairPage)
	s.report(ctx, "cannot look for events that are parked without a reason", err)
	if repaired > 0 {
		s.Logger.WarnContext(ctx, "events were parked without a reason, and are due now", "events", repaired)
	}
	return last, repaired
}

func (s *Store) report(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		s.Logger.WarnContext(ctx, what, "error", err) //nolint:sloglint // the callers' messages are constants
	}
}
