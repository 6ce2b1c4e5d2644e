package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Claim is a batch of events under one lease.
type Claim struct {
	Token  uuid.UUID // identifies the lease; each claim has a new one
	Events []Claimed // ordered by seq
	More   bool      // more events may be due: the claim stopped at its limit of rows
}

// Claimed is an event under lease.
type Claimed struct {
	ID          uuid.UUID
	AggregateID uuid.UUID
	EventKey    string
	Payload     string
	Traceparent string
	RetryCount  int
	Unroutable  bool // the broker returned it last time: no queue was bound for its key
	CreatedAt   time.Time
	Age         float64 // seconds since CreatedAt, by the database's clock
}

// turnstileSQL makes claims run one after the other. A claim changes no event, so no row lock
// keeps two claims apart. It is a statement of its own: the next statement's snapshot then
// includes what the previous claim committed. The lock ends with the transaction, within
// milliseconds.
const turnstileSQL = `SELECT pg_advisory_xact_lock(hashtext('outbox_claims'))`

// expireSQL deletes the claims whose lease has ended. Their events can be claimed again. It skips
// a claim whose holder has locked it to settle an event.
const expireSQL = `
DELETE FROM outbox_claims WHERE token IN (
  SELECT token FROM outbox_claims WHERE until <= now() FOR UPDATE SKIP LOCKED)`

// claimedIDsSQL selects the events of all claims.
const claimedIDsSQL = `(SELECT unnest(events) FROM outbox_claims)`

// claimSQL selects events that are due, and inserts one row: the claim.
//
//   - "due" reads the queue in order, at most @look rows;
//   - "oldest" is the oldest event of the same order in the queue. An event is free if it is the
//     oldest itself. An order's first event needs no look at the index;
//   - "blocked" are the others. Most of them wait for an event that a relay has claimed. They
//     stay where they are, and the next claim sees them again;
//   - "parked" are the blocked events whose oldest event has to wait itself. They become due when
//     that one is finished. If there are too many blocked events, more than a quarter of @look,
//     all of them are parked. The lock on the oldest event keeps it in the queue until the claim
//     commits. So the transaction that deletes it later finds the parked event (promoteSQL). If
//     it is being deleted already, SKIP LOCKED leaves the blocked event where it is;
//   - the lease starts at clock_timestamp(). now() is when the transaction began, before it
//     waited for other claims;
//   - @bytes bounds the memory and the time on the wire. The first event always fits.
const claimSQL = `
WITH due AS MATERIALIZED (
  SELECT q.id, q.seq, q.bytes, coalesce(o.id, q.id) AS oldest FROM (
    SELECT * FROM outbox_queue
    WHERE available_at <= now() AND available_at < 'infinity' AND id NOT IN ` + claimedIDsSQL + `
    ORDER BY available_at, seq LIMIT @look) q LEFT JOIN LATERAL (
    SELECT id FROM outbox_queue
    WHERE (aggregate_type, aggregate_id) = (q.aggregate_type, q.aggregate_id) AND q.aggregate_version > 1
    ORDER BY aggregate_version LIMIT 1) o ON true
), blocked AS MATERIALIZED (
  SELECT id, oldest, count(*) OVER () > @look / 4 AS too_many FROM due WHERE oldest <> id
), locked AS MATERIALIZED (
  SELECT n.id FROM blocked b,
  LATERAL (SELECT FROM outbox_queue WHERE id = b.oldest AND (b.too_many OR available_at > now()) FOR KEY SHARE SKIP LOCKED) o,
  LATERAL (SELECT id FROM outbox_queue WHERE id = b.id FOR UPDATE SKIP LOCKED) n
), parked AS (
  UPDATE outbox_queue SET available_at = 'infinity' WHERE id = ANY (ARRAY(SELECT id FROM locked))
  RETURNING 1
), claimed AS (
  INSERT INTO outbox_claims (token, worker, until, events)
  SELECT @token, @worker, clock_timestamp() + @lease * interval '1 second', array_agg(id) FROM (
    SELECT id, row_number() OVER line AS nth, sum(bytes) OVER line - bytes AS before
    FROM due WHERE oldest = id
    WINDOW line AS (ROWS UNBOUNDED PRECEDING)) free
  WHERE nth <= @limit AND before < @bytes
  HAVING count(*) > 0
  RETURNING 1
)
SELECT EXISTS (SELECT FROM claimed) AS claimed, EXISTS (SELECT FROM parked) AS parked,
       (SELECT count(*) FROM due) = @look AS full`

// claimedEventsSQL reads the events of a claim. It runs after the claim's transaction: a relay
// that vanishes while it receives a long answer must not block other claims. It leaves out events
// that somebody else has finished meanwhile. With a list of ids alone, PostgreSQL would look into
// every partition. The range of ids (BETWEEN) excludes the others.
const claimedEventsSQL = `
WITH claimed AS MATERIALIZED (SELECT unnest(events) AS id FROM outbox_claims WHERE token = @token)
SELECT e.id, e.aggregate_id, e.event_key, e.payload, e.traceparent, q.retry_count,
       q.failure_code IS NOT DISTINCT FROM 'unroutable' AS unroutable, e.created_at,
       extract(epoch FROM now() - e.created_at)::float8 AS age
FROM outbox_events e JOIN outbox_queue q USING (id)
WHERE e.id = ANY (ARRAY(SELECT id FROM claimed))
  AND e.id BETWEEN (SELECT id FROM claimed ORDER BY id LIMIT 1) AND (SELECT id FROM claimed ORDER BY id DESC LIMIT 1)
ORDER BY e.seq`

// MaxClaimBytes bounds all payloads of one claim together; the last one may exceed it. A network
// of 10 Mbit/s carries them within the default confirm timeout.
const MaxClaimBytes = 8 << 20

// A claim looks at minLook due events at least, however few it may take. So a relay that takes
// one at a time is not stopped by blocked events.
//
// A claim that can neither take nor park any of them looks at lookFactor times as many, up to
// maxLook: somebody may have locked the rows that block them, and later events may be free.
const (
	minLook    = 100
	lookFactor = 8
	maxLook    = 100_000
)

// Claim leases at most limit due events to worker, and fewer if they are large. The lease ends
// after the given duration, by the database's clock.
func (s *Store) Claim(ctx context.Context, worker string, limit int, lease time.Duration) (Claim, error) {
	claim := Claim{Token: uuid.New()}
	args := postgres.Args{
		"token": claim.Token, "worker": worker, "lease": lease.Seconds(), "limit": limit, "bytes": MaxClaimBytes,
	}
	found, err := s.lookAndClaim(ctx, args, max(limit, minLook))
	if err == nil && found.claimed {
		claim.Events, err = s.readClaimed(ctx, claim.Token)
	}
	// After an error the claim may be committed. And the janitor may have moved all events to
	// another partition, where an older snapshot does not have them.
	if err != nil || found.claimed && len(claim.Events) == 0 {
		s.releaseUnread(ctx, claim.Token)
	}
	if err != nil {
		return Claim{}, fmt.Errorf("claiming from the outbox: %w", err)
	}
	claim.More = found.full && (found.claimed || found.parked)
	return claim, nil
}

// found tells what a claim did: whether it claimed events, whether it parked events, and whether
// it stopped at its limit of rows, so that more may be due.
type found struct{ claimed, parked, full bool }

// lookAndClaim reads more rows each time, until it has claimed or parked an event.
func (s *Store) lookAndClaim(ctx context.Context, args postgres.Args, look int) (f found, err error) {
	for {
		args["look"] = look
		f, err = s.tryClaim(ctx, args)
		if err != nil || f.claimed || f.parked || !f.full || look >= maxLook {
			return f, err
		}
		look *= lookFactor
	}
}

// tryClaim is the transaction of a claim. All statements go to the server together.
func (s *Store) tryClaim(ctx context.Context, args postgres.Args) (found, error) {
	var rows []found
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		_ = tx.UseIndexes()
		_ = tx.Write("waiting for other claims", turnstileSQL, nil) // Collect returns its error
		_ = tx.Write("ending claims", expireSQL, nil)
		return postgres.Collect(tx, &rows, "claiming what is due", claimSQL, args, func(row pgx.CollectableRow) (f found, err error) {
			err = row.Scan(&f.claimed, &f.parked, &f.full)
			return f, err
		})
	})
	if err != nil {
		return found{}, err
	}
	return rows[0], nil
}

func (s *Store) readClaimed(ctx context.Context, token uuid.UUID) (events []Claimed, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		_ = tx.UseIndexes()
		return postgres.Collect(tx, &events, "reading what is claimed", claimedEventsSQL, postgres.Args{"token": token}, scanClaimed)
	})
	return events, err
}

// scanClaimed reads the ids as bytes: pgx reads a uuid.UUID as text.
func scanClaimed(row pgx.CollectableRow) (e Claimed, err error) {
	err = row.Scan((*[16]byte)(&e.ID), (*[16]byte)(&e.AggregateID), &e.EventKey, &e.Payload, &e.Traceparent,
		&e.RetryCount, &e.Unroutable, &e.CreatedAt, &e.Age)
	return e, err
}

// releaseUnread ends a claim whose events the relay did not get. Without it they would wait for
// the end of the lease. ctx may have ended already. If this fails as well, the lease ends.
func (s *Store) releaseUnread(ctx context.Context, token uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = s.Release(ctx, token)
}
