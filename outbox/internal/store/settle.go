package store

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Settlement is what became of events of a claim. It is written in one transaction.
type Settlement struct {
	Token uuid.UUID // of the claim
	End   bool      // end the claim: the rest of its events are due at once, unless they are halted

	// Published are the events that the destination has taken. They need no lease: a confirm is a
	// fact, and recording it avoids a repeat, whoever holds the events now.
	// The next events of their aggregates become due.
	Published []Event
	Failures  []Failure
	// Halted are events without an answer whose topic pauses. The claim holds them on: a confirm may
	// come. No other claim has to read past them.
	Halted []uuid.UUID

	Paused  map[string]string // topics, with the reason
	Longer  bool              // probes were not taken: the pauses of topics in Paused get longer
	Resumed []string          // topics whose pause is over
	// ProbeAgain are topics whose probe was not sent, or no destination could take it: another event
	// is tried at once.
	ProbeAgain []string

	Durable bool // the commit waits for the disk

	GiveUp time.Duration // see Failure.Counts
	// FirstPause and LongestPause are of topics.
	FirstPause, LongestPause time.Duration
}

// Failure is why an event was not published.
type Failure struct {
	ID    uuid.UUID
	Delay time.Duration // until the next attempt
	// Counts: it counts as refused. It fails at the LeastTries-th try or later, if the first of these
	// refusals since it was last unroutable is more than GiveUp ago.
	Counts bool
	// Tried: it was returned, or had no answer. So the next probe of its topic is another event.
	Tried  bool
	Final  bool   // it fails at once
	Halt   bool   // it waits for the end of its topic's pause, and not for Delay
	Code   string // one of a small fixed set
	Reason string // for people; cut to 1024 bytes
}

// LeastTries is how often an event must be tried before it fails.
const LeastTries = 10

// Settled is what a settlement has changed.
type Settled struct {
	Held   int                     // how many of Failures the claim still held; it changed no others
	Failed map[uuid.UUID]time.Time // the events that have failed now or before, see failuresSQL, and when
}

// markPublishedSQL deletes the events from the queue, and records that they are published. It
// records all of them that are in the log, also those that are no longer in the queue: a confirm is
// a fact, even if an operator has discarded the event meanwhile. The index returns the rows in the
// order of their ids, so two relays that mark the same events do not deadlock here. They can when
// they also supersede: then one of them is tried again.
const markPublishedSQL = `
WITH done AS (
  DELETE FROM outbox_queue WHERE id = ANY (` + idsSQL + `) RETURNING id, retry_count
), confirmed AS (
  SELECT id, retry_count FROM done
  UNION ALL
  SELECT e.id, 0 FROM unnest(` + idsSQL + `) AS other (id),
  LATERAL (SELECT id FROM outbox_events WHERE id = other.id LIMIT 1) e
  WHERE other.id NOT IN (SELECT id FROM done)
)
INSERT INTO outbox_done AS d (id, status, retry_count)
SELECT id, 'published', retry_count FROM confirmed ORDER BY id
ON CONFLICT (id) DO UPDATE SET
  (status, done_at, retry_count, failed_at, failure_code, failure_reason) =
  (excluded.status, now(), greatest(d.retry_count, excluded.retry_count), NULL, NULL, NULL)
WHERE d.status <> 'published'`

// supersedeSQL supersedes what is older than the given events, which supersede, as their claim has
// done. A crash or a failover of the server may have forgotten that claim, and not the older events.
// When their newer one is out of the queue, nothing else would keep them from being sent after it. An
// operator may have discarded it since, so it is read from the log.
const supersedeSQL = `
WITH done AS (
  DELETE FROM outbox_queue WHERE id = ANY (ARRAY(
    SELECT older.id FROM unnest(` + idsSQL + `) AS given (id),
    LATERAL (SELECT * FROM outbox_events WHERE id = given.id LIMIT 1) newer,
    LATERAL (
      SELECT id FROM outbox_queue
      WHERE (aggregate, aggregate_id) = (newer.aggregate, newer.aggregate_id) AND version < newer.version
      ORDER BY version OFFSET 0) older))
  RETURNING *, 'superseded' AS status
)` + RecordSQL

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

// failuresSQL reschedules, halts or fails events, if the claim still holds them. The failures are
// one object with a member for each id, so that the update finds each by a search, and without a
// join: a join of the queue may be planned as a scan of the whole queue. The events are locked in
// the order of their ids.
//
// If the answer of the first attempt was lost, the claim holds them no more. Then those that have
// failed for this reason are reported again, so that the relay counts and logs them.
const failuresSQL = `
WITH failures AS MATERIALIZED (
  SELECT cast(cast(@failures AS text) AS jsonb) AS by_id
), given AS MATERIALIZED (
  SELECT cast(jsonb_object_keys(by_id) AS uuid) AS id FROM failures
), ` + fenceSQL + `, held AS MATERIALIZED (
  SELECT q.id, by_id -> cast(q.id AS text) AS failure,
         (by_id -> cast(q.id AS text) ->> 'final')::boolean OR (by_id -> cast(q.id AS text) ->> 'counts')::boolean
           AND q.retry_count + 1 >= @least AND q.refused_since <= now() - cast(@give_up AS float8) * interval '1 second' AS fails
  FROM failures, (SELECT id FROM held_ids ORDER BY id) h,
  LATERAL (SELECT id, retry_count, refused_since FROM outbox_queue WHERE id = h.id LIMIT 1 FOR UPDATE) q
), decided AS MATERIALIZED (
  SELECT jsonb_object_agg(id, failure || jsonb_build_object('fails', coalesce(fails, false))) AS by_id FROM held
), written AS (
  UPDATE outbox_queue q
  SET retry_count = retry_count + ((` + failureSQL + ` ->> 'counts')::boolean OR (` + failureSQL + ` ->> 'tried')::boolean)::int,
      refused_since = CASE WHEN (` + failureSQL + ` ->> 'counts')::boolean THEN coalesce(refused_since, now())
                           WHEN ` + failureSQL + ` ->> 'code' <> '` + CodeUnroutable + `' THEN refused_since END,
      failure_code = ` + failureSQL + ` ->> 'code', failure_reason = ` + failureSQL + ` ->> 'reason',
      halted = (` + failureSQL + ` ->> 'halt')::boolean AND NOT (` + failureSQL + ` ->> 'fails')::boolean,
      failed_at = CASE WHEN (` + failureSQL + ` ->> 'fails')::boolean THEN now() END,
      available_at = CASE WHEN (` + failureSQL + ` ->> 'fails')::boolean OR (` + failureSQL + ` ->> 'halt')::boolean THEN 'infinity'
                          ELSE now() + (` + failureSQL + ` ->> 'delay')::float8 * interval '1 second' END
  WHERE id = ANY (ARRAY(SELECT id FROM held))
  RETURNING id, failed_at
)
SELECT id, failed_at, true AS held FROM written
UNION ALL
SELECT q.id, q.failed_at, false FROM failures, (SELECT id FROM given EXCEPT SELECT id FROM held_ids) before,
LATERAL (SELECT id, failed_at, failure_code, failure_reason FROM outbox_queue WHERE id = before.id LIMIT 1) q
WHERE q.failed_at IS NOT NULL
  AND (q.failure_code, q.failure_reason) = (by_id -> cast(q.id AS text) ->> 'code', by_id -> cast(q.id AS text) ->> 'reason')`

// haltSQL halts events that the claim holds.
const haltSQL = `
UPDATE outbox_queue SET halted = true, available_at = 'infinity'
WHERE id = ANY (ARRAY(
  SELECT q.id FROM (
    SELECT unnest(events) AS id FROM outbox_claims WHERE token = cast(@token AS uuid)
    INTERSECT SELECT unnest(` + idsSQL + `) ORDER BY id) held,
  LATERAL (SELECT id FROM outbox_queue WHERE id = held.id LIMIT 1 FOR UPDATE) q)) AND failed_at IS NULL AND NOT halted`

// failureSQL is the failure of the event that is updated.
const failureSQL = `((SELECT by_id FROM decided) -> cast(q.id AS text))`

// lockEventsSQL locks all events of a settlement in the order of their ids. Otherwise two
// statements would lock some each, and a relay with a late confirm of the same events could
// deadlock with it.
const lockEventsSQL = `SELECT id FROM outbox_queue WHERE id = ANY (` + idsSQL + `) ORDER BY id FOR UPDATE`

const endClaimSQL = `DELETE FROM outbox_claims WHERE token = cast(@token AS uuid)`

// Settle writes what became of events of a claim. It can be repeated if its answer was lost.
//
// The rows of topics come last, because many relays write the same ones.
func (s *Store) Settle(ctx context.Context, t Settlement) (result Settled, err error) {
	var all []statement
	add := func(needed bool, doing, sql string, values args, read func(pgx.Rows) error) {
		if needed {
			all = append(all, statement{doing, sql, values, read})
		}
	}
	var published, superseding []uuid.UUID
	for _, e := range t.Published {
		if published = append(published, e.ID); e.Supersedes {
			superseding = append(superseding, e.ID)
		}
	}
	locked := slices.Concat(published, t.Halted)
	for _, f := range t.Failures {
		locked = append(locked, f.ID)
	}
	twoKinds := len(locked) > max(len(published), len(t.Halted), len(t.Failures)) // at least
	add(twoKinds, "locking", lockEventsSQL, args{"ids": IDs(locked)}, nil)
	add(len(superseding) > 0, "superseding", supersedeSQL, args{"ids": IDs(superseding)}, nil)
	add(len(published) > 0, "marking", markPublishedSQL, args{"ids": IDs(published)}, nil)
	add(len(t.Failures) > 0, "rescheduling", failuresSQL, args{
		"token": t.Token, "failures": failuresText(t.Failures), "least": LeastTries, "give_up": t.GiveUp.Seconds(),
	}, result.readFailures)
	add(len(t.Halted) > 0, "halting", haltSQL, args{"token": t.Token, "ids": IDs(t.Halted)}, nil)
	add(t.End, "ending the claim", endClaimSQL, args{"token": t.Token}, nil)
	add(len(published) > 0, "making the next events due", PromoteSQL, args{"aggregates": Aggregates(t.Published)}, nil)
	add(len(t.Paused)+len(t.Resumed)+len(t.ProbeAgain) > 0, "waiting for others that change topics", lockTopicsSQL, nil, nil)
	add(len(t.Paused) > 0, "pausing topics", pauseSQL, args{
		"topics": jsonText(cleaned(t.Paused)), "first": t.FirstPause.Seconds(), "longest": t.LongestPause.Seconds(), "longer": t.Longer,
	}, nil)
	add(len(t.ProbeAgain) > 0, "trying topics again", probeAgainSQL, args{"topics": jsonText(t.ProbeAgain)}, nil)
	add(len(t.Resumed) > 0, "resuming topics", resumeSQL, args{"topics": jsonText(t.Resumed)}, nil)
	if len(all) == 0 {
		return result, nil
	}
	settings := ForgetfulSQL
	if t.Durable {
		settings = durableSQL
	}
	if err := s.inOneTransaction(ctx, settings, all...); err != nil {
		return Settled{}, fmt.Errorf("settling events: %w", err)
	}
	return result, nil
}

func (r *Settled) readFailures(rows pgx.Rows) error {
	r.Failed = map[uuid.UUID]time.Time{}
	for rows.Next() {
		var id [16]byte
		var failed *time.Time
		var held bool
		if err := rows.Scan(&id, &failed, &held); err != nil {
			return err
		}
		if held {
			r.Held++
		}
		if failed != nil {
			r.Failed[id] = *failed
		}
	}
	return rows.Err()
}

const renewSQL = `
UPDATE outbox_claims SET until = clock_timestamp() + cast(@lease AS float8) * interval '1 second'
WHERE token = ANY (` + idsSQL + `) AND until > clock_timestamp()
RETURNING token`

// Renew makes the leases of claims end this much later than now, and returns those that are held. A
// claim that has ended stays ended, even if it is not deleted yet: an operator may have discarded
// its events.
func (s *Store) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) (held []uuid.UUID, err error) {
	read := func(rows pgx.Rows) error {
		held, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	}
	err = s.together(ctx, statement{"renewing", renewSQL, args{"ids": IDs(tokens), "lease": lease.Seconds()}, read})
	if err != nil {
		return nil, fmt.Errorf("renewing leases: %w", err)
	}
	return held, nil
}

// failuresText converts failures to one text of JSON, with a member for each id.
func failuresText(failures []Failure) string {
	type member struct {
		Delay  float64 `json:"delay"` // seconds
		Counts bool    `json:"counts"`
		Tried  bool    `json:"tried"`
		Final  bool    `json:"final"`
		Halt   bool    `json:"halt"`
		Code   string  `json:"code"`
		Reason string  `json:"reason"`
	}
	all := make(map[uuid.UUID]member, len(failures))
	for _, f := range failures {
		all[f.ID] = member{f.Delay.Seconds(), f.Counts, f.Tried, f.Final, f.Halt, f.Code, truncate(f.Reason)}
	}
	return jsonText(all)
}

func cleaned(reasons map[string]string) map[string]string {
	all := make(map[string]string, len(reasons))
	for topic, reason := range reasons {
		all[topic] = truncate(reason)
	}
	return all
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
