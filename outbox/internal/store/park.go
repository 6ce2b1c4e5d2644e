package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// A parked event waits for an older event of its aggregate. Its available_at is 'infinity', so
// claims do not read it again and again. Parking saves work; it does not keep the order: a claim
// takes only the oldest event. Whoever deletes the older event, or takes it out of its aggregate,
// makes the next one due.
//
// No event stays parked for ever. A claim parks an event only while it holds a lock on the oldest
// event of the aggregate. If that one is deleted before the lock, the claim does not park the
// event. If it is deleted after the claim's commit, PromoteSQL finds the parked event.

// parkedSQL is true for an event that waits for an older one only.
const parkedSQL = `available_at = 'infinity' AND failed_at IS NULL AND NOT halted`

// PromoteSQL makes due, for each aggregate of the deleted events @ids (see [IDs]), the next parked
// event. Whoever deletes events from outbox_queue runs it in the same transaction.
//
// It is a statement of its own, after the statement that deleted the events. That one may
// have waited for a claim's lock, and only a later snapshot includes what the claim parked.
//
// It looks at one row for each aggregate, however many are parked, and at none while nothing is
// parked. An id that is still in the queue, with its aggregate, makes nothing due. The last condition
// is for a row that somebody else has changed meanwhile.
const PromoteSQL = `
WITH next AS MATERIALIZED (
  SELECT n.id FROM unnest(` + idsSQL + `) AS deleted (id),
  LATERAL (SELECT aggregate, aggregate_id FROM outbox_events WHERE id = deleted.id LIMIT 1) e,
  LATERAL (
    SELECT id FROM outbox_queue
    WHERE (aggregate, aggregate_id) = (e.aggregate, e.aggregate_id) AND ` + parkedSQL + `
    ORDER BY version LIMIT 1) n
  WHERE EXISTS (SELECT FROM outbox_queue WHERE ` + parkedSQL + `)
    AND (SELECT aggregate FROM outbox_queue WHERE id = deleted.id) IS NULL
)
UPDATE outbox_queue SET available_at = now()
WHERE id = ANY (ARRAY(SELECT id FROM next)) AND ` + parkedSQL

// repairSQL reads a page of the queue, and makes events due that nothing else would make due: they
// are parked although no older event of their aggregate is left, or halted although their topic has
// no row in outbox_topics.
const repairSQL = `
WITH page AS MATERIALIZED (
  SELECT id, aggregate, aggregate_id, topic, halted, ` + parkedSQL + ` AS parked FROM outbox_queue
  WHERE id > cast(@after AS uuid) ORDER BY id LIMIT @limit
), stranded AS MATERIALIZED (
  SELECT n.id FROM (SELECT * FROM page WHERE parked) p,
  LATERAL (
    SELECT id FROM outbox_queue
    WHERE (aggregate, aggregate_id) = (p.aggregate, p.aggregate_id) ORDER BY version LIMIT 1) oldest,
  LATERAL (SELECT id FROM outbox_queue WHERE id = p.id LIMIT 1 FOR UPDATE SKIP LOCKED) n
  WHERE oldest.id = p.id
  UNION ALL
  SELECT n.id FROM (SELECT * FROM page WHERE halted) p,
  LATERAL (SELECT id FROM outbox_queue WHERE id = p.id LIMIT 1 FOR UPDATE SKIP LOCKED) n
  WHERE NOT EXISTS (SELECT FROM outbox_topics WHERE topic = p.topic)
), repaired AS (
  UPDATE outbox_queue SET available_at = now(), halted = false
  WHERE id = ANY (ARRAY(SELECT id FROM stranded)) AND available_at = 'infinity' AND failed_at IS NULL
  RETURNING 1
)
SELECT (SELECT count(*) FROM repaired) AS repaired,
       (SELECT id FROM page ORDER BY id OFFSET cast(@limit AS int) - 1) AS last`

// Repair reads limit events of the queue with ids greater than after. It makes those due that
// nothing else would make due. It returns how many, and the id to continue from: [uuid.Nil] after
// the last page. This package's statements leave no such event; a person who changes the tables may.
func (s *Store) Repair(ctx context.Context, after uuid.UUID, limit int) (repaired int, last uuid.UUID, err error) {
	var next uuid.NullUUID
	err = s.together(ctx, statement{"repairing", repairSQL, args{"after": after, "limit": limit}, rowInto(&repaired, &next)})
	if err != nil {
		return 0, after, fmt.Errorf("repairing the queue: %w", err)
	}
	return repaired, next.UUID, nil
}
