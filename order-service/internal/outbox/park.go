package outbox

import (
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// An event behind a failed one is parked: it is pending, and due at 'infinity', so
// that no claim walks over it. That is about cost alone. What keeps the order is the
// NOT EXISTS of claimSQL, and it holds wherever the rows are.
//
// Nothing stays parked for ever. Whoever parks a row, or brings one back, holds the
// failed event locked meanwhile: Fail, Append, MarkPublished and the operator's
// decisions exclude each other, and what one of them leaves, the next one sees. An
// Append that overlaps a Fail may leave its row due; ParkBlocked parks it later.

// laterSQL is true of n when it waits behind b. Those rows need no order of locking:
// who comes for them by the row that they wait for holds that row's lock, and the
// janitor passes over what is locked, so that nobody waits for them in a circle.
const laterSQL = `(n.aggregate_type, n.aggregate_id) = (b.aggregate_type, b.aggregate_id)
  AND n.aggregate_version > b.aggregate_version AND n.status = 'pending'`

// strayedSQL is true of n when it is parked and no older event of its aggregate is
// failed.
const strayedSQL = `n.status = 'pending' AND n.available_at = 'infinity' AND NOT EXISTS (
    SELECT FROM outbox_events p
    WHERE (p.aggregate_type, p.aggregate_id) = (n.aggregate_type, n.aggregate_id)
      AND p.aggregate_version < n.aggregate_version AND p.status = 'failed')`

// dueSQL is when a row that is brought back is due: now, or together with an older
// one that is backed off.
const dueSQL = `greatest(now(), (
    SELECT max(p.available_at) FROM outbox_events p
    WHERE (p.aggregate_type, p.aggregate_id) = (n.aggregate_type, n.aggregate_id)
      AND p.aggregate_version < n.aggregate_version
      AND p.status = 'pending' AND p.available_at < 'infinity'))`

// unparkSQL is a statement of its own, after the one that locked the failed events:
// only so does it see what was appended while that one waited for the lock.
const unparkSQL = `
UPDATE outbox_events n SET available_at = ` + dueSQL + `
FROM outbox_events b
WHERE b.id = ANY (cast(@ids AS uuid[])) AND ` + laterSQL + `
  AND ` + strayedSQL

// unpark brings back what was parked behind these events, which tx has locked, and
// which are no longer failed.
func unpark(tx *postgres.Tx, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	return tx.Write("bringing back what was parked", unparkSQL, postgres.Args{"ids": uuids(ids)})
}
