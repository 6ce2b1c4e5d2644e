package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// markPublishedSQL deletes the events from the queue, and records that they are published. It
// records all of them that are in the log, also those that are no longer in the queue: a confirm is
// a fact, even if an operator has discarded the event meanwhile. The slot is that of the deleted
// row: the janitor may have moved the event since the claim. The index returns the rows in the
// order of their ids. So two relays that mark the same events cannot deadlock.
const markPublishedSQL = `
WITH done AS (
  DELETE FROM outbox_queue WHERE id = ANY (` + idsSQL + `) RETURNING id, slot, retry_count
), confirmed AS (
  SELECT id, slot, retry_count FROM done
  UNION ALL
  SELECT e.id, e.slot, 0 FROM unnest(` + idsSQL + `) AS other (id),
  LATERAL (SELECT id, slot FROM outbox_events WHERE id = other.id LIMIT 1) e
  WHERE other.id NOT IN (SELECT id FROM done)
)
INSERT INTO outbox_published (id, slot, retry_count)
SELECT id, slot, retry_count FROM confirmed ORDER BY id
ON CONFLICT DO NOTHING`

const releaseSQL = `DELETE FROM outbox_claims WHERE token = cast(@token AS uuid) RETURNING true`

// MarkPublished records that the destination has taken these events. It needs no lease: a
// confirm is a fact, and recording it avoids a repeat, whoever holds the events now. It also ends
// the claim with this token; [uuid.Nil] ends none.
func (s *Store) MarkPublished(ctx context.Context, token uuid.UUID, ids []uuid.UUID) error {
	err := s.together(ctx,
		statement{doing: "marking", sql: markPublishedSQL, args: args{"ids": IDs(ids)}},
		statement{doing: "ending the claim", sql: releaseSQL, args: args{"token": token}},
		promote(ids),
	)
	if err != nil {
		return fmt.Errorf("marking events published: %w", err)
	}
	return nil
}

// fenceSQL selects those of the given events that the claim still holds, and locks the claim until
// the transaction ends. A relay that has lost its claim finds none. The statement removes the
// events from the claim. So a statement that is repeated, because its answer was lost, finds none
// either.
const fenceSQL = `lease AS MATERIALIZED (SELECT events FROM outbox_claims WHERE token = cast(@token AS uuid) FOR UPDATE
), held_ids AS MATERIALIZED (
  SELECT unnest(events) AS id FROM lease INTERSECT SELECT id FROM given
), removed AS (
  UPDATE outbox_claims SET events = ARRAY(SELECT unnest(events) EXCEPT SELECT id FROM held_ids)
  WHERE token = cast(@token AS uuid) AND EXISTS (SELECT FROM held_ids)
)`

// overtakeSQL deletes events from the queue that a newer one supersedes, and records them as done.
const overtakeSQL = `
WITH given AS MATERIALIZED (
  SELECT id FROM outbox_queue q WHERE id = ANY (` + idsSQL + `) AND ` + OvertakenSQL + `
), ` + fenceSQL + `, done AS (
  DELETE FROM outbox_queue WHERE id = ANY (ARRAY(SELECT id FROM held_ids))
  RETURNING id, slot, retry_count, failure_code, failure_reason
)
INSERT INTO outbox_discarded (id, slot, overtaken, retry_count, failure_code, failure_reason)
SELECT id, slot, true, retry_count, failure_code, failure_reason FROM done ORDER BY id
ON CONFLICT DO NOTHING`

// Overtake settles overtaken events of a claim without sending them. The next events of their
// aggregates become due. It leaves the others alone, and does not end the claim.
func (s *Store) Overtake(ctx context.Context, token uuid.UUID, ids []uuid.UUID) error {
	err := s.together(ctx,
		statement{doing: "overtaking", sql: overtakeSQL, args: args{"token": token, "ids": IDs(ids)}},
		promote(ids),
	)
	if err != nil {
		return fmt.Errorf("settling overtaken events: %w", err)
	}
	return nil
}

// rescheduleSQL makes events due later, if the claim still holds them.
//
// Of the unroutable events of one topic, one is tried again after its delay: the probe. The others
// are parked until the probe succeeds (route.go). If two batches each choose a probe, the one
// that is returned first finds the other one, and is parked.
//
// The failures are one object with a member for each id, so that the update finds each by a search,
// and without a join: a join of the queue may be planned as a scan of the whole queue. The events
// are locked in the order of their ids.
const rescheduleSQL = `
WITH failures AS MATERIALIZED (
  SELECT cast(cast(@failures AS text) AS jsonb) AS by_id
), given AS MATERIALIZED (
  SELECT cast(jsonb_object_keys(by_id) AS uuid) AS id FROM failures
), ` + fenceSQL + `, held AS MATERIALIZED (
  SELECT q.id, q.seq, q.topic, by_id -> cast(q.id AS text) ->> 'code' AS code
  FROM failures, (SELECT id FROM held_ids ORDER BY id) h,
  LATERAL (SELECT id, seq, topic FROM outbox_queue WHERE id = h.id LIMIT 1 FOR UPDATE) q
), probes AS MATERIALIZED (
  SELECT k.id FROM (
    SELECT DISTINCT ON (topic) id, topic FROM held WHERE code = 'unroutable' ORDER BY topic, seq) k
  WHERE coalesce((` + firstOfTopicSQL + `), 'infinity') = 'infinity'
), changed AS (
  UPDATE outbox_queue q
  SET retry_count = retry_count + cast(` + failureSQL + ` ->> 'attempts' AS int),
      failure_code = ` + failureSQL + ` ->> 'code', failure_reason = ` + failureSQL + ` ->> 'reason',
      available_at = CASE WHEN ` + failureSQL + ` ->> 'code' <> 'unroutable' OR id IN (SELECT id FROM probes)
                          THEN now() + cast(` + failureSQL + ` ->> 'delay' AS float8) * interval '1 second' ELSE 'infinity' END
  WHERE id = ANY (ARRAY(SELECT id FROM held))
  RETURNING 1
)
SELECT count(*) FROM changed`

// failureSQL is the failure of the event that is updated.
const failureSQL = `((SELECT by_id FROM failures) -> cast(q.id AS text))`

// Reschedule makes events of a claim due after their delays. Of the unroutable events of one topic,
// only one becomes due. The others are parked until [Store.RetryUnroutable]. It returns how many
// events it changed. If these are fewer than given, the lease has ended, or somebody else has
// changed or finished an event.
func (s *Store) Reschedule(ctx context.Context, token uuid.UUID, failures []Failure) (held int, err error) {
	values := args{"token": token, "failures": object(failures)}
	err = s.together(ctx, statement{"rescheduling", rescheduleSQL, values, rowInto(&held)})
	if err != nil {
		return 0, fmt.Errorf("rescheduling events: %w", err)
	}
	return held, nil
}

// Release ends a claim. Its remaining events are due at once, and no attempt counts. It returns
// false if the claim had ended already.
func (s *Store) Release(ctx context.Context, token uuid.UUID) (bool, error) {
	var held []bool
	err := s.together(ctx, statement{"releasing", releaseSQL, args{"token": token}, rowsInto(&held, pgx.RowTo[bool])})
	if err != nil {
		return false, fmt.Errorf("releasing events: %w", err)
	}
	return len(held) == 1, nil
}

// failSQL ends the attempts, if the claim still holds the event. The event stays in the queue,
// where an operator finds it and can replay it.
const failSQL = `
WITH given AS MATERIALIZED (SELECT unnest(` + idsSQL + `) AS id), ` + fenceSQL + `
UPDATE outbox_queue
SET failed_at = now(), available_at = 'infinity', retry_count = retry_count + @attempts,
    failure_code = @code, failure_reason = @reason
WHERE id = ANY (ARRAY(SELECT id FROM held_ids))
RETURNING failed_at`

// Fail ends the attempts to publish an event, and returns when, by the database's clock. held is
// 1, or 0 if the lease has ended.
func (s *Store) Fail(ctx context.Context, token uuid.UUID, failure Failure) (at time.Time, held int, err error) {
	var failed []time.Time
	err = s.together(ctx, statement{"failing", failSQL, args{
		"ids": IDs([]uuid.UUID{failure.ID}), "token": token, "attempts": attempts(failure),
		"code": failure.Code, "reason": truncate(failure.Reason),
	}, rowsInto(&failed, pgx.RowTo[time.Time])})
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("marking event %s failed: %w", failure.ID, err)
	}
	if len(failed) > 0 {
		at = failed[0]
	}
	return at, len(failed), nil
}

// object converts failures to one text of JSON, with a member for each id.
func object(failures []Failure) string {
	type member struct {
		Delay    float64 `json:"delay"`
		Attempts int     `json:"attempts"`
		Code     string  `json:"code"`
		Reason   string  `json:"reason"`
	}
	all := make(map[string]member, len(failures))
	for _, f := range failures {
		all[f.ID.String()] = member{f.Delay.Seconds(), attempts(f), f.Code, truncate(f.Reason)}
	}
	text, _ := json.Marshal(all) // no value of these types can fail
	return string(text)
}

func attempts(f Failure) int {
	if f.Counts {
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
