package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// repairPage is how many events the janitor looks at each time. Most of them need no repair.
const repairPage = 5000

// RunJanitor maintains the tables until ctx ends: it deletes what was done longer ago than the
// retention, resumes topics whose row somebody has deleted, and looks at a page of events for those
// that nothing else would make due. It does so once a minute, and more often if the retention is
// short. It logs an error and tries again the next time, and calls failed if it could not delete. Any
// number may run.
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
		s.report(ctx, "cannot look for topics whose row is deleted", s.resumeDeleted(ctx))
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

// resumeDeletedSQL gives a row to each topic that has halted events and no row: somebody has
// deleted it, which ends the pause. It jumps from topic to topic in the index of halted events. It
// looks at @most topics after @after, and returns the last of them, or "" if there are no more.
const resumeDeletedSQL = `
WITH RECURSIVE halted AS (
  (SELECT topic FROM outbox_queue WHERE halted AND topic > @after ORDER BY topic LIMIT 1)
  UNION ALL
  SELECT (SELECT topic FROM outbox_queue WHERE halted AND topic > h.topic ORDER BY topic LIMIT 1)
  FROM halted h WHERE topic IS NOT NULL
), page AS MATERIALIZED (
  SELECT topic FROM halted WHERE topic IS NOT NULL LIMIT @most
), resumed AS (
  INSERT INTO outbox_topics (topic, until, pause, reason, resumed)
  SELECT topic, now(), 0, 'its row was deleted', true FROM page
  WHERE (SELECT topic FROM outbox_topics t WHERE t.topic = page.topic) IS NULL
  ON CONFLICT DO NOTHING
)
SELECT coalesce((SELECT max(topic) FROM page HAVING count(*) = @most), '')`

// resumeDeleted looks at maxTopics topics at a time.
func (s *Store) resumeDeleted(ctx context.Context) error {
	for after := ""; ; {
		err := s.together(ctx, statement{
			"resuming topics whose row is deleted", resumeDeletedSQL,
			args{"after": after, "most": maxTopics},
			rowInto(&after),
		})
		if err != nil || after == "" {
			return err
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
