package outbox

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// markPublishedSQL deletes the events from the queue, and records that they are published. It
// records all of them, also those that are no longer in the queue: a confirm is a fact, even if
// an operator has discarded the event meanwhile. The index returns the rows in the order of their
// ids. So two relays that mark the same events cannot deadlock.
const markPublishedSQL = `
WITH done AS (
  DELETE FROM outbox_queue WHERE id = ANY (@ids) RETURNING id, retry_count
)
INSERT INTO outbox_published (id, retry_count)
SELECT id, coalesce(retry_count, 0) FROM unnest(cast(@ids AS uuid[])) AS confirmed (id) LEFT JOIN done USING (id)
ORDER BY id
ON CONFLICT DO NOTHING`

const releaseSQL = `DELETE FROM outbox_claims WHERE token = @token`

// MarkPublished records that the broker confirmed and routed these events. It needs no lease: a
// confirm is a fact, and recording it avoids a repeat, whoever holds the events now. It also ends
// the claim with this token; [uuid.Nil] ends none.
func (s *Store) MarkPublished(ctx context.Context, token uuid.UUID, ids []uuid.UUID) error {
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		_ = tx.UseIndexes()
		_ = tx.Write("marking", markPublishedSQL, postgres.Args{"ids": uuids(ids)}) // promote returns its error
		if token != uuid.Nil {
			_ = tx.Write("ending the claim", releaseSQL, postgres.Args{"token": token})
		}
		return promote(tx, ids)
	})
	if err != nil {
		return fmt.Errorf("marking events published: %w", err)
	}
	return nil
}

// Failure is why an event was not published.
type Failure struct {
	ID     uuid.UUID
	Delay  time.Duration // until the next attempt; Fail ignores it
	Counts bool          // the attempt counts: retry_count grows by one
	Code   string        // one of the fixed set of the column failure_code
	Reason string        // for people; cut to 1024 bytes
}

// fenceSQL selects the events that the claim still holds, and locks the claim until the
// transaction ends. A relay that has lost its claim finds none. The statement removes the events
// from the claim. So a statement that is repeated, because its answer was lost, finds none either.
const fenceSQL = `lease AS MATERIALIZED (SELECT events FROM outbox_claims WHERE token = @token FOR UPDATE
), held_ids AS MATERIALIZED (
  SELECT unnest(events) AS id FROM lease INTERSECT SELECT unnest(cast(@ids AS uuid[]))
), removed AS (
  UPDATE outbox_claims SET events = ARRAY(SELECT unnest(events) EXCEPT SELECT id FROM held_ids)
  WHERE token = @token AND EXISTS (SELECT FROM held_ids)
)`

// rescheduleSQL makes events due later, if the claim still holds them.
//
// Of the unroutable events of one key, one is tried again after its delay: the probe. The others
// are parked until the probe succeeds (route.go). If two batches each choose a probe, the one
// that is returned first finds the other one, and is parked.
const rescheduleSQL = `
WITH ` + fenceSQL + `, held AS MATERIALIZED (
  SELECT q.id, q.seq, q.event_key, s.delay, s.attempts, s.code, s.reason
  FROM unnest(cast(@ids AS uuid[]), cast(@delays AS float8[]), cast(@attempts AS int[]),
              cast(@codes AS text[]), cast(@reasons AS text[])) AS s (id, delay, attempts, code, reason)
  JOIN outbox_queue q USING (id)
  WHERE q.id IN (SELECT id FROM held_ids)
  ORDER BY q.id FOR UPDATE OF q
), probes AS MATERIALIZED (
  SELECT k.id FROM (
    SELECT DISTINCT ON (event_key) id, event_key FROM held WHERE code = 'unroutable' ORDER BY event_key, seq) k
  WHERE coalesce((` + firstOfKeySQL + `), 'infinity') = 'infinity'
)
UPDATE outbox_queue q
SET retry_count = q.retry_count + h.attempts, failure_code = h.code, failure_reason = h.reason,
    available_at = CASE WHEN h.code <> 'unroutable' OR h.id IN (SELECT id FROM probes)
                        THEN now() + h.delay * interval '1 second' ELSE 'infinity' END
FROM held h WHERE q.id = h.id`

// Reschedule makes events of a claim due after their delays. Of the unroutable events of one key,
// only one becomes due. The others are parked until [Store.RetryUnroutable]. It returns how many
// events it changed. If these are fewer than given, the lease has ended, or somebody else has
// changed or finished an event.
func (s *Store) Reschedule(ctx context.Context, token uuid.UUID, failures []Failure) (int, error) {
	args := columns(failures)
	args["token"] = token
	held, err := s.exec(ctx, rescheduleSQL, args)
	if err != nil {
		return 0, fmt.Errorf("rescheduling events: %w", err)
	}
	return held, nil
}

// Release ends a claim. Its remaining events are due at once, and no attempt counts. It returns
// false if the claim had ended already.
func (s *Store) Release(ctx context.Context, token uuid.UUID) (bool, error) {
	held, err := s.exec(ctx, releaseSQL, map[string]any{"token": token})
	if err != nil {
		return false, fmt.Errorf("releasing events: %w", err)
	}
	return held == 1, nil
}

// failSQL ends the attempts, if the claim still holds the event. The event stays in the queue,
// where an operator finds it and can replay it.
const failSQL = `
WITH ` + fenceSQL + `
UPDATE outbox_queue
SET failed_at = now(), available_at = 'infinity', retry_count = retry_count + @attempts,
    failure_code = @code, failure_reason = @reason
WHERE id IN (SELECT id FROM held_ids)
RETURNING failed_at`

// Fail ends the attempts to publish an event, and returns when, by the database's clock. held is
// 1, or 0 if the lease has ended.
func (s *Store) Fail(ctx context.Context, token uuid.UUID, failure Failure) (at time.Time, held int, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		result := tx.Gorm(ctx).Raw(failSQL, map[string]any{
			"ids": uuids([]uuid.UUID{failure.ID}), "token": token, "attempts": boolToInt(failure.Counts),
			"code": failure.Code, "reason": truncate(failure.Reason),
		}).Scan(&at)
		held = int(result.RowsAffected)
		return result.Error
	})
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("marking event %s failed: %w", failure.ID, err)
	}
	return at, held, nil
}

// columns converts failures to one array for each column. SQL's unnest makes rows of them.
func columns(failures []Failure) map[string]any {
	ids, delays, attempts := array[[16]byte]{}, array[float64]{}, array[int]{}
	codes, reasons := array[string]{}, array[string]{}
	for _, f := range failures {
		ids = append(ids, f.ID)
		delays = append(delays, f.Delay.Seconds())
		attempts = append(attempts, boolToInt(f.Counts))
		codes = append(codes, f.Code)
		reasons = append(reasons, truncate(f.Reason))
	}
	return map[string]any{"ids": ids, "delays": delays, "attempts": attempts, "codes": codes, "reasons": reasons}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxReason is the width of failure_reason, in bytes.
const maxReason = 1024

// truncate makes any text fit the column: valid UTF-8, without NUL (which PostgreSQL refuses), cut
// between two runes. No reason may make its update fail.
func truncate(reason string) string {
	clean := make([]byte, 0, min(len(reason), maxReason))
	for _, r := range reason {
		if r == 0 {
			continue
		}
		if len(clean)+utf8.RuneLen(r) > maxReason {
			break
		}
		clean = utf8.AppendRune(clean, r)
	}
	return string(clean)
}
