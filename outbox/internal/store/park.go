package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// No event stays parked for ever. A claim parks an event only while it holds a lock on the next
// event of the aggregate. If that one is deleted before the lock, the claim does not park the
// event. If it is deleted after the claim's commit, PromoteSQL finds the parked event.

// parkedSQL is true for an event that waits for another one of its aggregate only.
const parkedSQL = `available_at = 'infinity' AND failed_at IS NULL AND NOT halted`

// stillParkedSQL is the same for a row that was found by its id: somebody else may have changed it
// meanwhile. It is a CASE, so that no plan reads all parked events by their index instead.
const stillParkedSQL = `CASE WHEN ` + parkedSQL + ` THEN true END`

// PromoteSQL makes the next parked event of each of these aggregates due: the newest superseding
// one, or else the oldest one. Whoever deletes events from outbox_queue runs it in the same
// transaction with their aggregates (see [Aggregates]).
//
// It is a statement of its own, after the statement that deleted the events. That one may
// have waited for a claim's lock, and only a later snapshot includes what the claim parked.
//
// It looks at two rows for each aggregate, however many are parked, and at none while nothing is
// parked.
const PromoteSQL = `
WITH next AS MATERIALIZED (
  SELECT n.id FROM json_array_elements(cast(cast(@aggregates AS text) AS json)) AS a (pair), LATERAL (
    SELECT coalesce((
      SELECT id FROM outbox_queue
      WHERE (aggregate, aggregate_id) = (pair ->> 0, pair ->> 1) AND supersedes AND ` + parkedSQL + `
      ORDER BY version DESC LIMIT 1), (
      SELECT id FROM outbox_queue
      WHERE (aggregate, aggregate_id) = (pair ->> 0, pair ->> 1) AND ` + parkedSQL + `
      ORDER BY version LIMIT 1)) AS id) n
  WHERE EXISTS (SELECT FROM outbox_queue WHERE ` + parkedSQL + `)
)
UPDATE outbox_queue SET available_at = now()
WHERE id = ANY (ARRAY(SELECT id FROM next)) AND ` + stillParkedSQL

// Aggregates returns the aggregates of events, for [PromoteSQL]. The one who deletes an event knows
// its aggregate; the event's row of the log may be missing.
func Aggregates(events []Event) string {
	pairs := make(map[[2]string]bool)
	for _, e := range events {
		if e.Aggregate != "" {
			pairs[[2]string{e.Aggregate, e.AggregateID}] = true
		}
	}
	return jsonText(slices.AppendSeq([][2]string{}, maps.Keys(pairs)))
}

// repairSQL reads a page of the queue, and makes the events due that are parked although they are
// the next ones of their aggregate.
const repairSQL = `
WITH page AS MATERIALIZED (
  SELECT * FROM outbox_queue WHERE id > cast(@after AS uuid) ORDER BY id LIMIT @limit
), stranded AS MATERIALIZED (
  SELECT n.id FROM (SELECT * FROM page WHERE ` + parkedSQL + `) q` + nextSQL + `
  CROSS JOIN LATERAL (SELECT id FROM outbox_queue WHERE id = q.id LIMIT 1 FOR UPDATE SKIP LOCKED) n
  WHERE coalesce(newest.id, oldest.id, q.id) = q.id
), repaired AS (
  UPDATE outbox_queue SET available_at = now()
  WHERE id = ANY (ARRAY(SELECT id FROM stranded)) AND ` + stillParkedSQL + `
  RETURNING 1
)
SELECT (SELECT count(*) FROM repaired) AS repaired,
       (SELECT id FROM page ORDER BY id OFFSET cast(@limit AS int) - 1) AS last`

// Repair reads limit events of the queue with ids greater than after. It makes those due that
// nothing else would make due. It returns how many, and the id to continue from: [uuid.Nil] after
// the last page. This package's statements leave no such event; a person who changes the tables
// may.
func (s *Store) Repair(ctx context.Context, after uuid.UUID, limit int) (repaired int, last uuid.UUID, err error) {
	var next uuid.NullUUID
	err = s.together(ctx, statement{"repairing", repairSQL, args{"after": after, "limit": limit}, rowInto(&repaired, &next)})
	if err != nil {
		return 0, after, fmt.Errorf("repairing the queue: %w", err)
	}
	return repaired, next.UUID, nil
}
