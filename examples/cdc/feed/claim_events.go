package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
)

// claimEventsSQL claims those of the given events that the store's claim could take: they are in the
// queue, due, in no other claim, the oldest of their aggregate, and their topic is not paused. It
// parks and halts no event: the poll does. It also returns
// the events that this snapshot does not see: they are neither in outbox_queue nor in outbox_events.
const claimEventsSQL = `
WITH wanted AS MATERIALIZED (
  SELECT unnest(cast(cast(@ids AS text) AS uuid[])) AS id
), queued AS MATERIALIZED (
  SELECT q.* FROM outbox_queue q WHERE q.id = ANY (ARRAY(SELECT id FROM wanted))
), free AS MATERIALIZED (
  SELECT q.id, q.retry_count, coalesce(q.failure_code, '') AS code, ` + store.OvertakenSQL + ` AS overtaken FROM queued q
  WHERE available_at <= now() AND id NOT IN (SELECT unnest(events) FROM outbox_claims)
    AND NOT EXISTS (SELECT FROM outbox_topics WHERE topic IN (q.topic, '*') AND NOT resumed)
    AND (aggregate IS NULL OR version = 1 OR id = (
      SELECT id FROM outbox_queue
      WHERE (aggregate, aggregate_id) = (q.aggregate, q.aggregate_id)
      ORDER BY version LIMIT 1))
), claimed AS (
  INSERT INTO outbox_claims (token, worker, until, events)
  SELECT cast(@token AS uuid), @worker, clock_timestamp() + cast(@lease AS float8) * interval '1 second', array_agg(id) FROM free
  HAVING count(*) > 0
), unseen AS (
  SELECT id FROM wanted w
  WHERE id NOT IN (SELECT id FROM queued) AND (SELECT id FROM outbox_events e WHERE e.id = w.id LIMIT 1) IS NULL
)
SELECT id::text, retry_count, code, overtaken, true AS claimed, clock_timestamp() AS at FROM free
UNION ALL
SELECT id::text, 0, '', false, false, clock_timestamp() FROM unseen`

// claimedEvent is a row of claimEventsSQL.
type claimedEvent struct {
	ID         string
	RetryCount int
	Code       string
	Overtaken  bool
	Claimed    bool
	At         time.Time
}

// claimEvents claims those of the events that the store could claim now. It needs their ID and
// CreatedAt, and sets what the queue knows about them. It reads no payload: the log has brought it.
//
// Unseen are the events that queries cannot see yet: PostgreSQL sends a commit to the readers of
// its write-ahead log before it is visible. The caller asks for them again. The remaining events
// are published or discarded, or the poll gets them later.
func (f *Feed) claimEvents(ctx context.Context, worker string, events []store.Event, lease time.Duration) (c store.Claim, unseen []uuid.UUID, err error) {
	c.Token = uuid.New()
	ids := make([]uuid.UUID, 0, len(events))
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	rows, err := f.tryClaimEvents(ctx, pgx.StrictNamedArgs{
		"ids": store.IDs(ids), "token": c.Token, "worker": worker, "lease": lease.Seconds(),
	})
	if err != nil {
		_, _ = f.Store.Settle(ctx, store.Settlement{Token: c.Token, End: true}) // it may be committed; without this, the lease ends it
		return store.Claim{}, nil, fmt.Errorf("claiming events from the outbox: %w", err)
	}
	found := make(map[string]claimedEvent, len(rows))
	for _, row := range rows {
		found[row.ID] = row
	}
	for _, e := range events {
		row, there := found[e.ID.String()]
		switch {
		case row.Claimed:
			e.RetryCount, e.FailureCode, e.Overtaken, e.Age = row.RetryCount, row.Code, row.Overtaken, row.At.Sub(e.CreatedAt).Seconds()
			c.Events = append(c.Events, e)
		case there:
			unseen = append(unseen, e.ID)
		}
	}
	return c, unseen, nil
}

// tryClaimEvents is the transaction of a claim, in one message. After an error, the pool closes the
// connection.
func (f *Feed) tryClaimEvents(ctx context.Context, args pgx.StrictNamedArgs) (rows []claimedEvent, err error) {
	b := &pgx.Batch{}
	for _, sql := range []string{"BEGIN ISOLATION LEVEL READ COMMITTED", store.ForgetfulSQL, store.TurnstileSQL, store.ExpireSQL} {
		b.Queue(sql)
	}
	b.Queue(claimEventsSQL, args).Query(func(found pgx.Rows) error {
		rows, err = pgx.CollectRows(found, pgx.RowToStructByPos[claimedEvent])
		return err
	})
	b.Queue("COMMIT")
	return rows, f.pool.SendBatch(ctx, b).Close()
}
