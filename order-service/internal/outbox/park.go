package outbox

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// A parked event waits for an older event of its order. Its available_at is 'infinity', so claims
// do not read it again and again. Whoever deletes the older event makes the next one due. Parking
// saves work; it does not keep the order: a claim takes only the oldest event of an order.
//
// No event stays parked for ever. A claim parks an event only while it holds a lock on the oldest
// event of the order. If that one is deleted before the lock, the claim does not park the event. If
// it is deleted after the claim's commit, promote finds the parked event.

// parkedSQL is true for an event that waits for an older one only.
const parkedSQL = `available_at = 'infinity' AND failed_at IS NULL AND failure_code IS DISTINCT FROM 'unroutable'`

// promoteSQL makes due, for each order of a deleted event, the next parked event. It looks at one
// row for each order, however many are parked, and at none while nothing is parked. It updates
// rows by ctid, so no plan reads other rows.
const promoteSQL = `
WITH next AS MATERIALIZED (
  SELECT n.place FROM outbox_events e, LATERAL (
    SELECT ctid AS place FROM outbox_queue
    WHERE (aggregate_type, aggregate_id) = (e.aggregate_type, e.aggregate_id) AND ` + parkedSQL + `
    ORDER BY aggregate_version LIMIT 1) n
  WHERE e.id = ANY (@ids) AND EXISTS (SELECT FROM outbox_queue WHERE ` + parkedSQL + `)
)
UPDATE outbox_queue SET available_at = now() WHERE ctid = ANY (ARRAY(SELECT place FROM next))`

// promote is a statement of its own, after the statement that deleted the events. That one may
// have waited for a claim's lock, and only a later snapshot includes what the claim parked.
func promote(tx *postgres.Tx, deleted []uuid.UUID) error {
	return tx.Write("making the next events due", promoteSQL, postgres.Args{"ids": uuids(deleted)})
}

// repairSQL reads a page of the queue, and makes events due that are parked although no older
// event of their order is left.
const repairSQL = `
WITH page AS MATERIALIZED (
  SELECT id FROM outbox_queue WHERE id > @after ORDER BY id LIMIT @limit
), stranded AS MATERIALIZED (
  SELECT id FROM outbox_queue q
  WHERE id = ANY (ARRAY(SELECT id FROM page)) AND ` + parkedSQL + ` AND id = (
    SELECT id FROM outbox_queue
    WHERE (aggregate_type, aggregate_id) = (q.aggregate_type, q.aggregate_id)
    ORDER BY aggregate_version LIMIT 1)
  FOR UPDATE SKIP LOCKED
), repaired AS (
  UPDATE outbox_queue SET available_at = now() WHERE id = ANY (ARRAY(SELECT id FROM stranded))
  RETURNING 1
)
SELECT (SELECT count(*) FROM repaired) AS repaired, (SELECT id FROM page ORDER BY id OFFSET @limit - 1) AS last`

// RepairParked reads limit events of the queue with ids greater than after. It makes those due
// that are parked although no older event is left. It returns how many, and the id to continue
// from: [uuid.Nil] after the last page. This package's statements leave no such event; a person
// who changes the table may.
func (s *Store) RepairParked(ctx context.Context, after uuid.UUID, limit int) (repaired int, last uuid.UUID, err error) {
	var page struct {
		Repaired int
		Last     uuid.NullUUID
	}
	args := map[string]any{"after": after, "limit": limit}
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error { return tx.Gorm(ctx).Raw(repairSQL, args).Scan(&page).Error })
	if err != nil {
		return 0, after, fmt.Errorf("making parked events due: %w", err)
	}
	return page.Repaired, page.Last.UUID, nil
}

// repairPage is how many events repairParked reads each time. Most of them need no repair.
const repairPage = 5000

// repairParked reads one page only: it expects nothing to repair.
func (s *Store) repairParked(ctx context.Context, after uuid.UUID) uuid.UUID {
	repaired, last, err := s.RepairParked(ctx, after, repairPage)
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot make parked events due", "error", err)
	}
	if repaired > 0 {
		slog.WarnContext(ctx, "events were parked although no older event was left", "events", repaired)
	}
	return last
}
