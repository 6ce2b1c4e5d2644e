package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Claim is a batch of events under one lease.
type Claim struct {
	Token      uuid.UUID   // identifies the lease; each claim has a new one
	Events     []Event     // ordered by seq
	NoPayload  []uuid.UUID // claimed, but their row of the log is missing: nobody can publish them
	More       bool        // more events may be due
	Superseded int         // older events of these aggregates that are not sent any more
	NextDue    *float64    // seconds until the next event becomes due; nil: nobody knows
	NextProbe  *float64    // seconds until a paused topic is to be tried; nil: no topic is to be tried
}

// TurnstileSQL makes claims run one after the other. A claim changes no event, so no row lock keeps
// two claims apart. It is a statement of its own: the next statement's snapshot then includes what
// the previous claim committed. The lock ends with the transaction, within milliseconds. Its number
// is the table's, so the outboxes of two schemas do not wait for each other.
const TurnstileSQL = `SELECT pg_advisory_xact_lock(cast('outbox_claims'::regclass::oid AS bigint))`

// ExpireSQL deletes the claims whose lease has ended. Their events can be claimed again. It skips
// a claim whose holder has locked it to settle an event.
const ExpireSQL = `
DELETE FROM outbox_claims WHERE token = ANY (ARRAY(
  SELECT token FROM outbox_claims WHERE until <= now() FOR UPDATE SKIP LOCKED))`

// claimedIDsSQL selects the events of all claims.
const claimedIDsSQL = `(SELECT unnest(events) FROM outbox_claims)`

// dueSQL is true for the events that are due and that nobody has claimed.
const dueSQL = `available_at >= cast(@floor AS timestamptz) AND available_at <= now() AND available_at < 'infinity'
    AND id NOT IN ` + claimedIDsSQL

// claimSQL selects events that are due, and inserts one row: the claim.
//
//   - "going" reads the queue in order, until it has @look events of topics that are not paused. It
//     begins at what became due at @floor: see the type floor;
//   - "stopped" are events of paused topics among the first @halt ones of the queue. They are
//     halted, so that the next claim does not read them again;
//   - "oldest" is the oldest event of the same aggregate in the queue. An event is free if it is
//     the oldest itself. The first event of an aggregate, and one without aggregate, need no look
//     at the index;
//   - "blocked" are the others. Most of them wait for an event that a relay has claimed. They
//     stay where they are, and the next claim sees them again;
//   - "parked" are the blocked events whose oldest event has to wait itself, and all blocked events
//     of paused topics. They become due when that one is finished. If there are too many blocked
//     events, more than a quarter of @look, all of them are parked. The lock on the oldest event
//     keeps it in the queue until the claim commits. So the transaction that deletes it later finds
//     the parked event (PromoteSQL). If it is being deleted already, SKIP LOCKED leaves the blocked
//     event where it is;
//   - "back" are halted events of resumed topics. They become due behind the others, as many as there
//     is room for in this claim, and a tenth at least. So a topic that was away for a day does not
//     delay the others;
//   - the lease starts at clock_timestamp(). now() is when the transaction began, before it
//     waited for other claims;
//   - @bytes bounds the memory and the time on the wire. The first event always fits;
//   - "first" is when the first event became due. The next floor is floorMargin earlier. Claimed
//     events count, because a lease may end. Events of paused topics do not count. A claim that is
//     no full read does not need it.
const claimSQL = `
WITH paused AS MATERIALIZED (` + pausedSQL + `
), going AS MATERIALIZED (
  SELECT id, bytes, aggregate, aggregate_id, version, available_at FROM outbox_queue
  WHERE ` + dueSQL + ` AND topic NOT IN (SELECT topic FROM paused) AND NOT EXISTS (SELECT FROM paused WHERE topic = '*')
  ORDER BY available_at, seq LIMIT @look
), stopped AS MATERIALIZED (
  SELECT id, bytes, aggregate, aggregate_id, version, available_at FROM (
    SELECT *, topic IN (SELECT topic FROM paused) AS is_paused FROM (
      SELECT * FROM outbox_queue WHERE ` + dueSQL + ` ORDER BY available_at, seq LIMIT @halt) front) front
  WHERE is_paused AND EXISTS (SELECT FROM paused)
), due AS MATERIALIZED (
  SELECT q.id, q.bytes, q.stops, coalesce(o.id, q.id) AS oldest
  FROM (SELECT *, false AS stops FROM going UNION ALL SELECT *, true FROM stopped) q LEFT JOIN LATERAL (
    SELECT id FROM outbox_queue
    WHERE (aggregate, aggregate_id) = (q.aggregate, q.aggregate_id) AND q.version > 1
    ORDER BY version LIMIT 1) o ON true
), blocked AS MATERIALIZED (
  SELECT id, oldest, stops OR count(*) OVER () > @look / 4 AS too_many FROM due WHERE oldest <> id
), locked AS MATERIALIZED (
  SELECT n.id FROM blocked b,
  LATERAL (SELECT FROM outbox_queue WHERE id = b.oldest AND (b.too_many OR available_at > now()) FOR KEY SHARE SKIP LOCKED) o,
  LATERAL (SELECT id FROM outbox_queue WHERE id = b.id FOR UPDATE SKIP LOCKED) n
), parked AS (
  UPDATE outbox_queue SET available_at = 'infinity' WHERE id = ANY (ARRAY(SELECT id FROM locked))
  RETURNING 1
), halted AS (
  UPDATE outbox_queue SET halted = true, available_at = 'infinity'
  WHERE id = ANY (ARRAY(
    SELECT n.id FROM (SELECT id FROM due WHERE stops AND oldest = id) d,
    LATERAL (SELECT id FROM outbox_queue WHERE id = d.id FOR UPDATE SKIP LOCKED) n)) AND failed_at IS NULL
  RETURNING 1
), resumed AS MATERIALIZED (
  SELECT topic, count(*) OVER () AS topics FROM outbox_topics WHERE resumed LIMIT 100
), back AS (
  UPDATE outbox_queue SET halted = false, available_at = now()
  WHERE id = ANY (ARRAY(
    SELECT q.id FROM resumed t, LATERAL (
      SELECT id FROM outbox_queue WHERE topic = t.topic AND halted AND id NOT IN ` + claimedIDsSQL + `
      ORDER BY topic, retry_count, seq
      LIMIT greatest(@limit - (SELECT count(*) FROM going), @limit / 10) / t.topics + 1 FOR UPDATE SKIP LOCKED) q)) AND halted
  RETURNING 1
), claimed AS (
  INSERT INTO outbox_claims (token, worker, until, events)
  SELECT cast(@token AS uuid), @worker, clock_timestamp() + cast(@lease AS float8) * interval '1 second', array_agg(id) FROM (
    SELECT id, row_number() OVER line AS nth, sum(bytes) OVER line - bytes AS before
    FROM due WHERE oldest = id AND NOT stops
    WINDOW line AS (ROWS UNBOUNDED PRECEDING)) free
  WHERE nth <= @limit AND before < @bytes
  HAVING count(*) > 0
  RETURNING 1
), first_going AS (
  SELECT min(available_at) AS due_at FROM going
), first_claimed AS (
  SELECT min(available_at) AS due_at FROM outbox_queue
  WHERE cast(@wants_first AS boolean) AND id = ANY (ARRAY` + claimedIDsSQL + `) AND available_at < 'infinity'
)
SELECT EXISTS (SELECT FROM claimed) AS claimed, EXISTS (SELECT FROM parked) AS parked,
       EXISTS (SELECT FROM halted) OR EXISTS (SELECT FROM back) AS moved, (SELECT count(*) FROM going) = @look AS full,
       (SELECT count(*) FROM paused) AS paused,
       coalesce(least((SELECT due_at FROM first_going), (SELECT due_at FROM first_claimed)), now()) AS first, ` + nextProbeSQL

// OvertakenSQL is true for the event q of the queue if a newer one of its aggregate supersedes it.
// The newer one cannot leave the queue before q does, unless an operator discards it: then q is
// sent. The fact stands at the newer event. If Append changed the older ones, it would hold their
// locks until the user's commit, and a relay that marks them would wait for it.
const OvertakenSQL = `((
  SELECT true FROM outbox_queue WHERE (aggregate, aggregate_id) = (q.aggregate, q.aggregate_id) AND version > q.version AND supersedes
  ORDER BY version DESC LIMIT 1) IS NOT NULL)`

// claimedEventsSQL reads the events of a claim. It runs after the claim's transaction: a relay
// that vanishes while it receives a long answer must not block other claims. It leaves out events
// that somebody else has finished meanwhile. It finds each event in the slot that its row of the
// queue has now, so it must not have an older snapshot: the janitor may have moved the event, and
// then emptied its old slot.
const claimedEventsSQL = `
SELECT q.id, e.id IS NULL AS no_payload, q.seq, q.topic, coalesce(q.aggregate, ''), coalesce(q.aggregate_id, ''),
       coalesce(q.version, 0), e.payload, coalesce(e.content_type, ''), e.headers, coalesce(e.traceparent, ''),
       q.retry_count, coalesce(q.failure_code, ''), ` + OvertakenSQL + `,
       coalesce(e.created_at, now()), coalesce(extract(epoch FROM now() - e.created_at), 0)::float8
FROM (SELECT unnest(events) AS id FROM outbox_claims WHERE token = cast(@token AS uuid)) claimed
CROSS JOIN LATERAL (SELECT * FROM outbox_queue WHERE id = claimed.id LIMIT 1) q
LEFT JOIN LATERAL (SELECT * FROM outbox_events WHERE slot = q.slot AND id = q.id LIMIT 1) e ON true
ORDER BY q.seq`

// MaxClaimBytes bounds all payloads of one claim together; the last one may exceed it. A network
// of 10 Mbit/s carries them within the default confirm timeout.
const MaxClaimBytes = 8 << 20

// A claim looks at minLook due events at least, however few it may take. So a relay that takes
// one at a time is not stopped by blocked events.
//
// A claim that can neither take nor park any of them looks at lookFactor times as many, up to
// maxLook: somebody may have locked the rows that block them, and later events may be free.
//
// To halt an event costs about 30 µs, and other claims wait meanwhile.
const (
	minLook    = 100
	lookFactor = 8
	maxLook    = 100_000
	maxHalt    = 4000
)

// Claim leases at most limit due events to worker, and fewer if they are large. The lease ends
// after the given duration, by the database's clock.
func (s *Store) Claim(ctx context.Context, worker string, limit int, lease time.Duration) (Claim, error) {
	claim := Claim{Token: uuid.New()}
	values := args{
		"token": claim.Token, "worker": worker, "lease": lease.Seconds(), "limit": limit, "bytes": MaxClaimBytes, "halt": maxHalt,
	}
	for look := max(limit, minLook); ; look *= lookFactor {
		values["look"] = look
		f, err := s.tryClaim(ctx, values)
		progress := f.claimed || f.parked || f.moved
		if err == nil && f.full && !progress && look < maxLook {
			continue
		}
		claim.More, claim.NextProbe = f.moved || f.full && progress, f.nextProbe
		return s.finishClaim(ctx, claim, f.claimed, err)
	}
}

// found tells what a claim did.
type found struct {
	claimed   bool
	parked    bool
	moved     bool      // it halted events or brought some back, so the next claim finds others
	full      bool      // it stopped at its limit of rows, so more may be due
	paused    int       // topics
	first     time.Time // when the first event that is not of a paused topic became due
	nextProbe *float64
}

// tryClaim is the transaction of a claim.
func (s *Store) tryClaim(ctx context.Context, values args) (f found, err error) {
	begin := time.Now()
	floor, full := s.floor.from(begin)
	values["floor"], values["wants_first"] = floor, full
	err = s.together(ctx,
		statement{doing: "waiting for other claims", sql: TurnstileSQL},
		statement{doing: "ending claims", sql: ExpireSQL},
		statement{doing: "forgetting topics", sql: forgetTopicsSQL},
		statement{"claiming what is due", claimSQL, values, rowInto(&f.claimed, &f.parked, &f.moved, &f.full, &f.paused, &f.first, &f.nextProbe)},
	)
	switch {
	case err != nil:
	case full:
		s.floor.set(f, begin, time.Now())
	case s.floor.pausesChanged(f.paused):
		f.moved = true
	}
	return f, err
}

// finishClaim reads the claimed events. It ends the claim if it cannot, because the events would
// wait for the end of the lease; and also if somebody else has finished all of them meanwhile. After
// an error the claim may be committed.
func (s *Store) finishClaim(ctx context.Context, claim Claim, claimed bool, err error) (Claim, error) {
	if err == nil && claimed {
		err = s.readClaimed(ctx, &claim)
	}
	if err != nil || claimed && len(claim.Events)+len(claim.NoPayload) == 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = s.Settle(ctx, Settlement{Token: claim.Token, End: true})
	}
	if err != nil {
		return Claim{}, fmt.Errorf("claiming from the outbox: %w", err)
	}
	return claim, nil
}

// readClaimed reads the events of a claim.
func (s *Store) readClaimed(ctx context.Context, c *Claim) error {
	read := func(rows pgx.Rows) error {
		for rows.Next() {
			e, noPayload, err := scanClaimed(rows)
			switch {
			case err != nil:
				return err
			case noPayload:
				c.NoPayload = append(c.NoPayload, e.ID)
			default:
				c.Events = append(c.Events, e)
			}
		}
		return rows.Err()
	}
	return s.together(ctx, statement{"reading what is claimed", claimedEventsSQL, args{"token": c.Token}, read})
}

// scanClaimed reads the id as bytes: pgx reads a uuid.UUID as text.
func scanClaimed(rows pgx.Rows) (e Event, noPayload bool, err error) {
	var headers []byte
	err = rows.Scan((*[16]byte)(&e.ID), &noPayload, &e.Seq, &e.Topic, &e.Aggregate, &e.AggregateID,
		&e.Version, &e.Payload, &e.ContentType, &headers, &e.Traceparent,
		&e.RetryCount, &e.FailureCode, &e.Overtaken, &e.CreatedAt, &e.Age)
	e.Headers = ParseHeaders(headers)
	return e, noPayload, err
}
