package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// claimEventsSQL claims those of the given events that claimSQL could claim: they are in the queue,
// due, in no other claim, and the oldest of their order. It parks no event. It also returns the
// events that this snapshot does not see: they are neither in outbox_queue nor in outbox_events.
const claimEventsSQL = `
WITH wanted AS MATERIALIZED (
  SELECT unnest(cast(@ids AS uuid[])) AS id
), queued AS MATERIALIZED (
  SELECT q.* FROM outbox_queue q WHERE q.id = ANY (@ids)
), free AS MATERIALIZED (
  SELECT q.id, q.retry_count, q.failure_code IS NOT DISTINCT FROM 'unroutable' AS unroutable FROM queued q
  WHERE available_at <= now() AND id NOT IN ` + claimedIDsSQL + ` AND (q.aggregate_version = 1 OR q.id = (
    SELECT id FROM outbox_queue
    WHERE (aggregate_type, aggregate_id) = (q.aggregate_type, q.aggregate_id)
    ORDER BY aggregate_version LIMIT 1))
), claimed AS (
  INSERT INTO outbox_claims (token, worker, until, events)
  SELECT @token, @worker, clock_timestamp() + @lease * interval '1 second', array_agg(id) FROM free
  HAVING count(*) > 0
), unseen AS (
  SELECT id FROM wanted w
  WHERE NOT EXISTS (SELECT FROM queued q WHERE q.id = w.id) AND NOT EXISTS (SELECT FROM outbox_events e WHERE e.id = w.id)
)
SELECT id, retry_count, unroutable, true AS claimed, clock_timestamp() AS at FROM free
UNION ALL
SELECT id, 0, false, false, clock_timestamp() FROM unseen`

// claimedEvent is a row of claimEventsSQL.
type claimedEvent struct {
	id         uuid.UUID
	retryCount int
	unroutable bool
	claimed    bool
	at         time.Time
}

// ClaimEvents claims those of the events that [Store.Claim] could claim now. It is for a caller
// that knows the events from another source, such as the write-ahead log of PostgreSQL. It needs
// their ID and CreatedAt, and sets RetryCount, Unroutable and Age. It reads no payload.
//
// Unseen are the events that queries cannot see yet: PostgreSQL sends a commit to the readers of
// its write-ahead log before it is visible. The caller asks for them again. The remaining events
// are published or discarded, or Claim gets them later.
func (s *Store) ClaimEvents(ctx context.Context, worker string, events []Claimed, lease time.Duration) (c Claim, unseen []uuid.UUID, err error) {
	c.Token = uuid.New()
	ids := make([]uuid.UUID, 0, len(events))
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	rows, err := s.tryClaimEvents(ctx, postgres.Args{
		"ids": uuids(ids), "token": c.Token, "worker": worker, "lease": lease.Seconds(),
	})
	if err != nil {
		s.releaseUnread(ctx, c.Token) // it may be committed
		return Claim{}, nil, fmt.Errorf("claiming events from the outbox: %w", err)
	}
	found := make(map[uuid.UUID]claimedEvent, len(rows))
	for _, row := range rows {
		if found[row.id] = row; !row.claimed {
			unseen = append(unseen, row.id)
		}
	}
	for _, e := range events {
		if row := found[e.ID]; row.claimed {
			e.RetryCount, e.Unroutable, e.Age = row.retryCount, row.unroutable, row.at.Sub(e.CreatedAt).Seconds()
			c.Events = append(c.Events, e)
		}
	}
	return c, unseen, nil
}

func (s *Store) tryClaimEvents(ctx context.Context, args postgres.Args) (rows []claimedEvent, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		_ = tx.UseIndexes()
		_ = tx.Write("waiting for other claims", turnstileSQL, nil) // Collect returns its error
		_ = tx.Write("ending claims", expireSQL, nil)
		return postgres.Collect(tx, &rows, "claiming events", claimEventsSQL, args, func(row pgx.CollectableRow) (e claimedEvent, err error) {
			err = row.Scan((*[16]byte)(&e.id), &e.retryCount, &e.unroutable, &e.claimed, &e.at)
			return e, err
		})
	})
	return rows, err
}
