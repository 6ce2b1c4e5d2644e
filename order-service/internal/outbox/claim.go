package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Store is the relay's side of the outbox.
type Store struct {
	db      *postgres.DB
	exactly int // up to how many events are counted
}

// NewStore returns the outbox in db.
func NewStore(db *postgres.DB) *Store { return &Store{db: db, exactly: exactly} }

// Claim is a batch of events under one lease.
type Claim struct {
	Token  uuid.UUID // proves the lease; drawn anew for each claim
	Events []Claimed // by seq
}

// Claimed is an event under lease.
type Claimed struct {
	ID          uuid.UUID
	EventKey    string
	Payload     string
	Traceparent string
	RetryCount  int
	Unroutable  bool // no queue was bound for its key when it was last tried
	CreatedAt   time.Time
	Age         float64 // seconds since CreatedAt, by the database's clock
}

// claimSQL takes what is due, in one statement:
//
//   - "ready" is what became available, whether it was pending or its lease ended;
//   - NOT EXISTS passes over events whose aggregate has an older unsettled one: all
//     states but the two that settle an event, so a failed one blocks as well;
//   - SKIP LOCKED lets claimers pass each other instead of queueing, and OF o keeps
//     the lock to the rows that are taken;
//   - MATERIALIZED makes the choice once, so that LIMIT means the batch;
//   - ctid is where the row lies: to find it again by its id was a quarter of the work.
//     A row that somebody changes before it is locked is missed this time, and due still;
//   - "due" is the part of ready that fits into @bytes. That bounds the memory and the time on
//     the wire. The first event always fits. A short payload is measured by its stored size,
//     because turning it into text costs more;
//   - the last SELECT sorts again: UPDATE … RETURNING keeps no order.
const claimSQL = `
WITH ready AS MATERIALIZED (
  SELECT o.ctid AS place, o.available_at, o.seq,
         CASE WHEN pg_column_size(o.payload) < 512 THEN pg_column_size(o.payload)
              ELSE octet_length(o.payload::text) END AS bytes
  FROM outbox_events o
  WHERE o.status IN ('pending', 'in_progress') AND o.available_at <= now()
    AND NOT EXISTS (
      SELECT 1 FROM outbox_events p
      WHERE (p.aggregate_type, p.aggregate_id) = (o.aggregate_type, o.aggregate_id)
        AND p.aggregate_version < o.aggregate_version
        AND p.status NOT IN ('published', 'discarded'))
  ORDER BY o.available_at, o.seq
  LIMIT @limit
  FOR UPDATE OF o SKIP LOCKED
), due AS (
  SELECT place FROM (
    SELECT place, bytes, sum(bytes) OVER (ORDER BY available_at, seq) AS total FROM ready) AS r
  WHERE total - bytes <= @bytes
), claimed AS (
  UPDATE outbox_events o
  SET status = 'in_progress', available_at = now() + @lease * interval '1 second',
      lease_token = @token, locked_by = @worker
  WHERE o.ctid = ANY (ARRAY(SELECT place FROM due))
  RETURNING o.id, o.seq, o.event_key, o.payload, o.traceparent, o.retry_count, o.failure_code, o.created_at
)
SELECT id, event_key, payload, traceparent, retry_count,
       failure_code IS NOT DISTINCT FROM 'unroutable' AS unroutable, created_at,
       extract(epoch FROM now() - created_at)::float8 AS age
FROM claimed ORDER BY seq`

// MaxClaimBytes is about how long all payloads of one claim are at most; the last one may
// go beyond. A network of 10 Mbit/s carries them within the default confirm timeout.
const MaxClaimBytes = 8 << 20

// Claim leases at most limit due events to worker, and fewer when they are large. The lease ends
// after the given time, counted from the database's now.
func (s *Store) Claim(ctx context.Context, worker string, limit int, lease time.Duration) (Claim, error) {
	claim := Claim{Token: uuid.New()}
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		return postgres.Collect(tx, &claim.Events, "leasing what is due", claimSQL, postgres.Args{
			"limit": limit, "bytes": MaxClaimBytes, "lease": lease.Seconds(), "token": claim.Token, "worker": worker,
		}, claimed)
	})
	if err != nil {
		return Claim{}, fmt.Errorf("claiming from the outbox: %w", err)
	}
	return claim, nil
}

// claimed reads a row. pgx takes a uuid.UUID for a text that has to be parsed, and its
// bytes for what they are.
func claimed(row pgx.CollectableRow) (e Claimed, err error) {
	err = row.Scan((*[16]byte)(&e.ID), &e.EventKey, &e.Payload, &e.Traceparent, &e.RetryCount, &e.Unroutable, &e.CreatedAt, &e.Age)
	return e, err
}
