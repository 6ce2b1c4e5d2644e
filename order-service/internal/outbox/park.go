package outbox

import (
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// An event behind a failed one is parked: it is pending, and due at 'infinity', so
// that no claim walks over it. So is one behind an event that waits for a route (route.go).
// That is about cost alone. What keeps the order is the NOT EXISTS of claimSQL, and it
// holds wherever the rows are.
//
// Nothing stays parked for ever. Whoever parks a row, or brings one back, holds the
// event before it locked meanwhile: Fail, Append, MarkPublished, BringBack and the
// operator's decisions exclude each other, and what one of them leaves, the next one sees.
// An Append that overlaps a Fail may leave its row due; ParkBlocked parks it later.

// laterSQL is true of n when it waits behind b. These rows may be locked in any order without a
// deadlock: whoever locks them has locked b first, and the janitor skips locked rows.
const laterSQL = `(n.aggregate_type, n.aggregate_id) = (b.aggregate_type, b.aggregate_id)
  AND n.aggregate_version > b.aggregate_version AND n.status = 'pending'`

// parksSQL is true of p when the later events of its aggregate are parked.
const parksSQL = `(p.status = 'failed' OR p.status = 'pending' AND p.failure_code = 'unroutable' AND p.available_at = 'infinity')`

// linesSQL goes once through the unfinished events of each of the aggregates, in the order
// of their versions. It says of each whether an older one parks it, and when it is due if
// none does: now, or together with an older one that is backed off. To look for the older
// ones of each event would be quadratic: 30,000 of one aggregate never came to an end.
const linesSQL = `
  SELECT p.id, p.available_at, bool_or(` + parksSQL + `) OVER older AS parked,
         greatest(now(), max(p.available_at) FILTER (WHERE p.status = 'pending' AND p.available_at < 'infinity') OVER older) AS due
  FROM aggregates a JOIN outbox_events p USING (aggregate_type, aggregate_id)
  WHERE p.status IN ('pending', 'failed')
  WINDOW older AS (PARTITION BY p.aggregate_type, p.aggregate_id ORDER BY p.aggregate_version
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)`

// strayedSQL is true of n when it is parked, and no older event of its line l parks it.
// isfinite, because no index serves it. An index would lead to all parked events, for each
// row of l, whenever the planner's statistics are from before they were parked.
const strayedSQL = `n.status = 'pending' AND NOT isfinite(n.available_at)
    AND n.failure_code IS DISTINCT FROM 'unroutable' AND l.available_at = 'infinity' AND l.parked IS NOT TRUE`

// unparkSQL is a statement of its own, after the one that locked the events: only so does
// it see what was appended while that one waited for the lock.
const unparkSQL = `
WITH aggregates AS MATERIALIZED (
  SELECT DISTINCT aggregate_type, aggregate_id FROM outbox_events WHERE id = ANY (cast(@ids AS uuid[]))
), lines AS MATERIALIZED (` + linesSQL + `
)
UPDATE outbox_events n SET available_at = l.due
FROM lines l WHERE n.id = l.id AND ` + strayedSQL

// unpark brings back what was parked behind these events, which tx has locked, and
// which no longer park anything.
func unpark(tx *postgres.Tx, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	return tx.Write("bringing back what was parked", unparkSQL, postgres.Args{"ids": uuids(ids)})
}
