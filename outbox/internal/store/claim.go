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
	Token      uuid.UUID // identifies the lease; each claim has a new one
	Events     []Event   // ordered by seq
	NoPayload  []Event   // claimed, but their row of the log is missing: nobody can publish them
	Superseded int       // older events of these aggregates that are not sent any more
	More       bool      // more events may be due
	NextDue    *float64  // seconds until the next event becomes due; nil: nobody knows
	NextProbe  *float64  // seconds until a paused topic is to be tried; nil: no topic is to be tried
}

// A claim is one transaction of these steps, each a statement:
//
//  1. ClaimLockSQL and expireSQL: no other claim runs, and claims whose lease has ended are gone;
//  2. the statements of aside.go put aside what must wait, and bring it back. Most are sent only if
//     the last claim has seen such events, or topics;
//  3. claimSQL takes what is free.
//
// After the commit, claimedEventsSQL reads the events.

// ClaimLockSQL is the claim lock: claims run one after the other. A claim changes no event that it
// takes, so no row lock keeps two claims apart. It is a statement of its own: the next statement's
// snapshot then includes what the previous claim committed. The lock ends with the transaction,
// within milliseconds. Its number is hashed from the table's. So the outboxes of two schemas do not
// wait for each other, nor for an application that locks small numbers, such as its customers' ids.
const ClaimLockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('claims ' || 'outbox_claims'::regclass::oid, 0))`

// expireSQL deletes the claims whose lease has ended. Their events can be claimed again. It skips
// a claim whose holder has locked it to settle an event.
const expireSQL = `
DELETE FROM outbox_claims WHERE token = ANY (ARRAY(
  SELECT token FROM outbox_claims WHERE until <= now() FOR UPDATE SKIP LOCKED))`

// claimedIDsSQL selects the ids in all claims. NOT IN needs a hash table of them. PostgreSQL makes
// one if it expects that they fit into work_mem. For the array of a subquery it expects ten, so it
// always makes one.
const (
	claimedIDsSQL = `(SELECT unnest(ARRAY(SELECT unnest(events) FROM outbox_claims)))`
	// LeasedIDsSQL selects those whose lease has not ended.
	LeasedIDsSQL = `(SELECT unnest(ARRAY(SELECT unnest(events) FROM outbox_claims WHERE until > now())))`
)

// dueSQL selects the events that are due and that nobody has claimed. It begins at what became due
// at @floor: see the type floor.
const dueSQL = `
  SELECT * FROM outbox_queue q
  WHERE available_at >= cast(@floor AS timestamptz) AND available_at <= now() AND available_at < 'infinity'
    AND id NOT IN ` + claimedIDsSQL

// goingSQL selects those of them whose topic is not paused.
const goingSQL = dueSQL + ` AND NOT ` + isPausedSQL + ` AND NOT ` + AllPausedSQL

// claimSQL selects events that are free, and inserts one row: the claim.
//
//   - "going" reads the queue in order, until it has @look events of topics that are not paused;
//   - "found" has the next event of the same aggregate (nextSQL);
//   - "line" are the events that are the next ones themselves, unless the oldest of the aggregate
//     is in flight, and "free" the first of them, up to @limit events and @bytes. (Their order is that
//     of "going". If a plan changed it, the claim would take others of them.) The bytes bound the
//     memory and the time on the wire. The first event always fits;
//   - takeSQL supersedes their older ones, and claims them;
//   - the others stay where they are. "waiting" says that the next claim is to put them aside: one of
//     them waits for an event that is not due, or they are more than a quarter of @look;
//   - "topics" says that a topic is paused, or that its events may have to come back;
//   - "first" is when the first event became due. The next floor is floorMargin earlier. Claimed
//     events count, because a lease may end: each is looked up by its id. Events of paused topics do
//     not count. A claim that is no full read does not need it.
const claimSQL = `
WITH going AS MATERIALIZED (` + goingSQL + `
  ORDER BY available_at, seq LIMIT @look
), found AS MATERIALIZED (
  SELECT q.*, ` + nextColumnsSQL + ` FROM going q` + nextSQL + `
), line AS MATERIALIZED (
  SELECT *, row_number() OVER all_of_them AS nth, sum(bytes) OVER all_of_them - bytes AS before FROM found
  WHERE next = id AND (oldest = id OR oldest NOT IN ` + claimedIDsSQL + `)
  WINDOW all_of_them AS (ROWS UNBOUNDED PRECEDING)
), free AS MATERIALIZED (
  SELECT * FROM line WHERE nth <= @limit AND before < @bytes
), ` + takeSQL + `, first_going AS (
  SELECT min(available_at) AS due_at FROM going
), first_claimed AS (
  SELECT min(available_at) AS due_at
  FROM (SELECT unnest(events) AS id FROM outbox_claims WHERE cast(@wants_first AS boolean)) c,
  LATERAL (SELECT topic, available_at FROM outbox_queue WHERE id = c.id LIMIT 1) q
  WHERE available_at < 'infinity' AND NOT ` + isPausedSQL + `
)
SELECT EXISTS (SELECT FROM claimed) AS claimed, (SELECT count(*) FROM done) AS superseded,
       (SELECT count(*) FROM going) = @look AS at_limit, (SELECT count(*) FROM line) > (SELECT count(*) FROM free) AS left_over,
       EXISTS (SELECT FROM found WHERE next <> id AND waits) OR (SELECT count(*) FROM found WHERE next <> id) > @look / 4 AS waiting,
       EXISTS (SELECT FROM outbox_topics) AS topics,
       (SELECT count(*) FROM (SELECT FROM outbox_topics WHERE NOT resumed LIMIT @most_paused) t) AS paused,
       coalesce(least((SELECT due_at FROM first_going), (SELECT due_at FROM first_claimed)), now()) AS first, ` + nextProbeSQL + `,
       (SELECT extract(epoch FROM available_at - now()) FROM outbox_queue
        WHERE available_at > now() AND available_at < 'infinity' ORDER BY available_at, seq LIMIT 1)::float8 AS next_due`

// claimedEventsSQL reads the events of a claim. It runs after the claim's transaction: a relay
// that vanishes while it receives a long answer must not block other claims. It leaves out events
// that somebody else has finished meanwhile.
const claimedEventsSQL = `
SELECT q.id, e.id IS NULL AS no_payload, q.seq, coalesce(e.topic, q.topic), coalesce(e.destination, ''), coalesce(q.aggregate, ''), coalesce(q.aggregate_id, ''),
       coalesce(q.version, 0), q.supersedes, e.payload, coalesce(e.content_type, ''), e.headers, coalesce(e.traceparent, ''),
       q.retry_count, coalesce(q.failure_code = '` + CodeSessionClosed + `', false), coalesce(e.created_at, now()), coalesce(extract(epoch FROM now() - e.created_at), 0)::float8
FROM (SELECT unnest(events) AS id FROM outbox_claims WHERE token = cast(@token AS uuid)) claimed
CROSS JOIN LATERAL (SELECT * FROM outbox_queue WHERE id = claimed.id LIMIT 1) q
LEFT JOIN LATERAL (SELECT * FROM outbox_events WHERE id = q.id LIMIT 1) e ON true
ORDER BY q.seq`

// MaxClaimBytes bounds all payloads of one claim together; the last one may exceed it. A network
// of 10 Mbit/s carries them within the default confirm timeout.
const MaxClaimBytes = 8 << 20

// A claim looks at minLook due events at least, however few it may take. So a relay that takes
// one at a time is not stopped by blocked events.
//
// A claim that can neither take nor put aside any of them looks at lookFactor times as many, up to
// maxLook: somebody may have locked the rows that block them, and later events may be free.
//
// To put an event aside or to supersede one costs 30 to 300 µs, and other claims wait meanwhile.
const (
	minLook      = 100
	lookFactor   = 8
	maxLook      = 100_000
	maxHalt      = 2000
	maxPark      = 4000
	maxTopics    = 10_000 // a claim counts so many that are paused
	maxSupersede = 2000
)

// Claim leases at most limit due events to worker, and fewer if they are large. The lease ends
// after the given duration, by the database's clock.
func (s *Store) Claim(ctx context.Context, worker string, limit int, lease time.Duration) (Claim, error) {
	claim := Claim{Token: uuid.New()}
	for look := max(limit, minLook); ; look = min(look*lookFactor, maxLook) {
		f, err := s.tryClaim(ctx, limit, look, args{
			"token": claim.Token, "worker": worker, "lease": lease.Seconds(), "limit": limit, "look": look,
			"bytes": MaxClaimBytes, "most": maxSupersede, "most_paused": maxTopics,
		})
		progress := f.claimed || f.superseded > 0 || f.parked > 0 || f.moved
		if err == nil && f.atLimit && !progress && look < maxLook {
			continue
		}
		claim.Superseded, claim.NextProbe, claim.NextDue = f.superseded, f.nextProbe, f.nextDue
		claim.More = f.moved || f.leftOver && f.claimed || f.atLimit && progress || f.superseded > 0 && !f.claimed
		return s.finishClaim(ctx, claim, f.claimed, err)
	}
}

// found tells what a claim did, and what it saw.
type found struct {
	claimed    bool
	superseded int
	parked     int
	moved      bool      // it halted events or brought some back, or the next claim does
	atLimit    bool      // it stopped at its limit of rows, so more may be due
	leftOver   bool      // it has not taken all that is free
	waiting    bool      // it saw events that are to be parked
	topics     bool      // there are rows of topics
	paused     int       // topics; maxTopics means that many or more
	first      time.Time // when the first event that is not of a paused topic became due
	nextProbe  *float64
	nextDue    *float64
}

// tryClaim is the transaction of a claim.
func (s *Store) tryClaim(ctx context.Context, limit, look int, values args) (f found, err error) {
	begin := time.Now()
	floor, full := s.floor.from(begin)
	values["floor"], values["wants_first"] = floor, full
	steps := []statement{
		{doing: "waiting for other claims", sql: ClaimLockSQL},
		{doing: "ending claims", sql: expireSQL},
	}
	steps = append(steps, s.putAside(&f, floor, full, limit, look)...)
	steps = append(steps, statement{
		"claiming what is due", claimSQL, values,
		rowInto(&f.claimed, &f.superseded, &f.atLimit, &f.leftOver, &f.waiting, &f.topics, &f.paused, &f.first, &f.nextProbe, &f.nextDue),
	})
	if err = s.together(ctx, steps...); err != nil {
		s.floor.again()
		return f, err
	}
	s.someWait.Store(f.waiting)
	if full {
		s.floor.set(f, begin, time.Now())
	}
	appeared := !s.someTopics.Swap(f.topics) && f.topics // this claim has left out the steps for topics
	f.moved = s.floor.pausesChanged(f.paused, appeared) || f.moved
	return f, nil
}

// finishClaim reads the claimed events. It ends the claim if it cannot, because the events would
// wait for the end of the lease; and also if somebody else has finished all of them meanwhile.
// After an error the claim may be committed.
func (s *Store) finishClaim(ctx context.Context, claim Claim, claimed bool, err error) (Claim, error) {
	if err == nil && claimed {
		err = s.readClaimed(ctx, &claim)
	}
	if err != nil || claimed && len(claim.Events)+len(claim.NoPayload) == 0 {
		s.LetGo(ctx, claim.Token)
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
				c.NoPayload = append(c.NoPayload, e)
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
	err = rows.Scan((*[16]byte)(&e.ID), &noPayload, &e.Seq, &e.Topic, &e.Destination, &e.Aggregate, &e.AggregateID,
		&e.Version, &e.Supersedes, &e.Payload, &e.ContentType, &headers, &e.Traceparent,
		&e.RetryCount, &e.EndedSession, &e.CreatedAt, &e.Age)
	e.Headers = ParseHeaders(headers)
	return e, noPayload, err
}
