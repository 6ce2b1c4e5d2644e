package store

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// What a claim cannot take for long is put aside: its available_at becomes 'infinity', so that
// claims do not read it again and again.
//
//   - A halted event waits for the end of its topic's pause.
//   - A parked event waits for the next event of its aggregate. Parking saves work; it does not
//     keep the order: a claim takes only the next event.

// asideSQL puts aside events at the front of the queue: those of paused topics among the first
// @halt, and of the others @park.
//
//   - "stopped" are those of paused topics. The next event of an aggregate is halted, and the
//     others are parked, so that a topic's halted events are of different aggregates;
//   - "going" are the others. Those that wait for the next event of their aggregate are parked if
//     that one has to wait itself, or if they are more than a quarter of @park. Most others wait
//     for an event that a relay has claimed, and will soon be free;
//   - the lock on the next event keeps it in the queue until the claim commits. So the transaction
//     that deletes it later finds the parked event (PromoteSQL). If it is being deleted already,
//     SKIP LOCKED leaves the blocked event where it is.
const asideSQL = `
WITH stopped AS MATERIALIZED (
  SELECT * FROM (` + dueSQL + ` ORDER BY available_at, seq LIMIT @halt) q WHERE ` + isPausedSQL + `
), going AS MATERIALIZED (` + goingSQL + `
  ORDER BY available_at, seq LIMIT @park
), found AS MATERIALIZED (
  SELECT q.id, q.stops, ` + nextColumnsSQL + `
  FROM (SELECT *, true AS stops FROM stopped UNION ALL SELECT *, false FROM going) q` + nextSQL + `
), blocked AS MATERIALIZED (
  SELECT *, stops OR waits OR count(*) OVER () > @park / 4 AS parks FROM found WHERE next <> id
), parked AS (
  UPDATE outbox_queue SET available_at = 'infinity' WHERE id = ANY (ARRAY(
    SELECT n.id FROM blocked b,
    LATERAL (SELECT FROM outbox_queue WHERE id = b.next FOR KEY SHARE SKIP LOCKED) next,
    LATERAL (SELECT id FROM outbox_queue WHERE id = b.id FOR UPDATE SKIP LOCKED) n
    WHERE parks))
  RETURNING 1
), halted AS (
  UPDATE outbox_queue SET halted = true, available_at = 'infinity' WHERE id = ANY (ARRAY(
    SELECT n.id FROM found f, LATERAL (SELECT id FROM outbox_queue WHERE id = f.id FOR UPDATE SKIP LOCKED) n
    WHERE stops AND next = f.id)) AND failed_at IS NULL
  RETURNING 1
)
SELECT (SELECT count(*) FROM parked) AS parked, EXISTS (SELECT FROM halted) AS moved`

// bringBackSQL makes halted events of resumed topics due, behind the others: as many as there is
// room for in a claim of @limit, and a tenth at least. So a topic that was away for a day does not
// delay the others.
const bringBackSQL = `
WITH resumed AS MATERIALIZED (
  SELECT topic, count(*) OVER () AS topics FROM outbox_topics WHERE resumed ORDER BY random() LIMIT 100
), going AS MATERIALIZED (` + goingSQL + ` AND EXISTS (SELECT FROM resumed)
  ORDER BY available_at, seq LIMIT @limit
)
UPDATE outbox_queue SET halted = false, available_at = now()
WHERE id = ANY (ARRAY(
  SELECT q.id FROM resumed t, LATERAL (
    SELECT id FROM outbox_queue WHERE topic = t.topic AND halted AND id NOT IN ` + claimedIDsSQL + `
    ORDER BY topic, retry_count, seq
    LIMIT greatest(@limit - (SELECT count(*) FROM going), @limit / 10) / t.topics + 1 FOR UPDATE SKIP LOCKED) q))
RETURNING 1`

// forgetTopicsSQL deletes the rows of resumed topics that have no halted event any more. PostgreSQL
// reads a row again that has changed since the statement began, but not the halted events. So a topic
// that was paused since the transaction began keeps its row, even if it is resumed already.
const forgetTopicsSQL = `
DELETE FROM outbox_topics WHERE topic = ANY (ARRAY(
  SELECT topic FROM outbox_topics t
  WHERE resumed AND since < now() AND (SELECT true FROM outbox_queue WHERE topic = t.topic AND halted LIMIT 1) IS NULL
  FOR UPDATE SKIP LOCKED)) AND resumed`

// putAside returns the steps of a claim that put aside what must wait, and bring it back: those
// that the last claim has found to be needed. Only full reads halt events, because the others begin
// behind most of them.
func (s *Store) putAside(f *found, floor time.Time, full bool, limit, look int) (steps []statement) {
	topics, halt, park, back := s.someTopics.Load(), 0, 0, 0
	if topics && full {
		halt = maxHalt
	}
	if s.someWait.Load() {
		park = min(look, maxPark)
	}
	if halt+park > 0 {
		steps = append(steps, statement{
			"putting events aside", asideSQL,
			args{"floor": floor, "halt": halt, "park": park},
			rowInto(&f.parked, &f.moved),
		})
	}
	if topics {
		steps = append(steps, statement{
			"bringing events back", bringBackSQL,
			args{"floor": floor, "limit": limit},
			func(rows pgx.Rows) error {
				err := countInto(&back)(rows)
				f.moved = f.moved || back > 0
				return err
			},
		}, statement{doing: "forgetting topics", sql: forgetTopicsSQL})
	}
	return steps
}
