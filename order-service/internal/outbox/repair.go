package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"example.com/transactional-outbox/internal/postgres"
)

// repairBatch is how many rows a repair looks at. Most of them stay as they are.
const repairBatch = 5000

// inTheWaySQL is true of n, which is due, when b, which it waits for, is due later or
// only after a decision. Behind an event in somebody's hands a row stays: it may be
// free at any moment.
const inTheWaySQL = `(b.status = 'failed'
    OR b.status = 'pending' AND b.available_at > n.available_at
    OR b.status = 'in_progress' AND b.available_at > n.available_at AND b.available_at <= now())`

// parkBlockedSQL looks at what is due first, since that is where a row that is due
// and blocked stays, and moves it to where it belongs: out of the due range behind a
// failed event, else behind the event that it waits for. It locks both events, and
// asks again: nobody may decide about the one while the other is being parked. It
// passes over what is locked, so that nobody waits for it in a circle.
const parkBlockedSQL = `
WITH near AS MATERIALIZED (
  SELECT id, aggregate_type, aggregate_id, aggregate_version, available_at FROM outbox_events
  WHERE status = 'pending' AND available_at <= now()
  ORDER BY available_at, seq LIMIT @limit
), found AS MATERIALIZED (
  SELECT n.id, b.id AS blocker FROM near n, LATERAL (
    SELECT p.id, p.status, p.available_at FROM outbox_events p
    WHERE (p.aggregate_type, p.aggregate_id) = (n.aggregate_type, n.aggregate_id)
      AND p.aggregate_version < n.aggregate_version
      AND p.status NOT IN ('published', 'discarded')
    ORDER BY p.aggregate_version LIMIT 1) b
  WHERE ` + inTheWaySQL + `
), blocked AS MATERIALIZED (
  SELECT n.id, CASE b.status WHEN 'failed' THEN 'infinity' ELSE b.available_at END AS place
  FROM found f, LATERAL (
    SELECT status, available_at FROM outbox_events WHERE id = f.blocker FOR SHARE SKIP LOCKED) b, LATERAL (
    SELECT id, available_at FROM outbox_events WHERE id = f.id AND status = 'pending' FOR UPDATE SKIP LOCKED) n
  WHERE ` + inTheWaySQL + `
)
UPDATE outbox_events n SET available_at = k.place
FROM blocked k WHERE n.id = k.id`

// ParkBlocked looks at the first limit pending events that are due, puts those that
// are in the way of claims where they belong, and returns how many it did.
func (s *Store) ParkBlocked(ctx context.Context, limit int) (int, error) {
	n, err := s.exec(ctx, parkBlockedSQL, map[string]any{"limit": limit})
	if err != nil {
		return 0, fmt.Errorf("parking blocked events: %w", err)
	}
	return n, nil
}

// freeStrayedSQL goes through the parked rows by the far end of the index of what is
// due, a page at a time: most of them are where they belong.
const freeStrayedSQL = `
WITH page AS MATERIALIZED (
  SELECT id, seq, aggregate_type, aggregate_id FROM outbox_events
  WHERE status = 'pending' AND available_at = 'infinity' AND seq > @after
  ORDER BY seq LIMIT @limit
), aggregates AS MATERIALIZED (
  SELECT DISTINCT aggregate_type, aggregate_id FROM page
), lines AS MATERIALIZED (` + linesSQL + `
), strayed AS MATERIALIZED (
  SELECT n.id, l.due FROM lines l JOIN outbox_events n USING (id)
  WHERE ` + strayedSQL + ` AND n.seq > @after AND n.seq <= (SELECT max(seq) FROM page)
  FOR UPDATE OF n SKIP LOCKED
), freed AS (
  UPDATE outbox_events n SET available_at = s.due
  FROM strayed s WHERE n.id = s.id
  RETURNING n.id
)
SELECT (SELECT count(*) FROM freed) AS freed,
       (SELECT CASE WHEN count(*) < @limit THEN 0 ELSE max(seq) END FROM page) AS last`

// FreeStrayed looks at limit parked events beyond a seq, and brings those back that
// nothing failed holds there. It returns how many, and the seq to go on from: 0 after
// the last page. The system's own statements leave none; a hand in the table may.
func (s *Store) FreeStrayed(ctx context.Context, after int64, limit int) (freed int, last int64, err error) {
	var page struct {
		Freed int
		Last  int64
	}
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		return tx.Gorm(ctx).Raw(freeStrayedSQL, map[string]any{"after": after, "limit": limit}).Scan(&page).Error
	})
	if err != nil {
		return 0, after, fmt.Errorf("bringing parked events back: %w", err)
	}
	return page.Freed, page.Last, nil
}

// keepInPlace repairs once a minute.
func (s *Store) keepInPlace(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for parked := int64(0); ; { // the seq up to which the last time looked
		s.probeRoutes(ctx)
		s.parkAll(ctx)
		parked = s.freeSome(ctx, parked)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// parkAll goes on while it finds something: each row is moved once.
func (s *Store) parkAll(ctx context.Context) {
	parked := 0
	for ctx.Err() == nil {
		n, err := s.ParkBlocked(ctx, repairBatch)
		parked += n
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot park blocked events", "error", err)
		}
		if n == 0 {
			break
		}
	}
	if parked > 0 {
		slog.InfoContext(ctx, "blocked events parked", "events", parked)
	}
}

// freeSome looks at one page only: that there is anything to do is not to be expected.
func (s *Store) freeSome(ctx context.Context, after int64) int64 {
	freed, last, err := s.FreeStrayed(ctx, after, repairBatch)
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot bring parked events back", "error", err)
	}
	if freed > 0 {
		slog.WarnContext(ctx, "events were parked behind nothing", "events", freed)
	}
	return last
}
