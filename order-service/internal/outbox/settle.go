package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// markPublishedSQL locks its rows in the order of their ids: two holders of
// overlapping batches would otherwise wait for each other for ever. It returns those
// that somebody had given up or parked meanwhile.
const markPublishedSQL = `
WITH confirmed AS MATERIALIZED (
  SELECT id, status, available_at FROM outbox_events
  WHERE id = ANY (@ids) AND status <> 'published'
  ORDER BY id FOR UPDATE
), marked AS (
  UPDATE outbox_events o
  SET status = 'published', published_at = now(),
      lease_token = NULL, locked_by = NULL, failure_code = NULL, failure_reason = NULL, failed_at = NULL
  FROM confirmed c WHERE o.id = c.id
)
SELECT id FROM confirmed WHERE status = 'failed' OR available_at = 'infinity'`

// MarkPublished records that the broker confirmed and routed these events. It asks
// for no lease: a confirm is a fact, and writing it saves a repeat, whoever holds
// the row by now.
func (s *Store) MarkPublished(ctx context.Context, ids []uuid.UUID) error {
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		parking, err := postgres.Read(ctx, tx, markPublishedSQL, postgres.Args{"ids": uuids(ids)}, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		return unpark(tx, parking)
	})
	if err != nil {
		return fmt.Errorf("marking events published: %w", err)
	}
	return nil
}

// Setback puts one event off.
type Setback struct {
	ID     uuid.UUID
	Delay  time.Duration
	Spends bool   // whether this attempt counts against the event
	Code   string // why, from the fixed set of the column failure_code
	Reason string // why, for people
}

// rescheduleSQL backs off the events that are still held under the token, and
// moves their aggregates' later events behind them in the same statement:
// otherwise each claim would walk over all those blocked rows (300,000 of them
// made a claim take 1.1 s instead of 14 ms).
//
// Of the unroutable events of one key, one is tried again after its delay, and the others
// wait for what becomes of it (route.go). When two batches make a probe each, the one that
// comes back first finds the other and waits with the rest.
const rescheduleSQL = `
WITH held AS MATERIALIZED (
  SELECT o.id, o.seq, o.event_key, s.delay, s.spends, s.code, s.reason
  FROM unnest(cast(@ids AS uuid[]), cast(@delays AS float8[]), cast(@spends AS int[]),
              cast(@codes AS text[]), cast(@reasons AS text[])) AS s (id, delay, spends, code, reason)
  JOIN outbox_events o ON o.id = s.id
  WHERE o.lease_token = @token AND o.status = 'in_progress'
  ORDER BY o.id FOR UPDATE OF o
), probes AS MATERIALIZED (
  SELECT k.id FROM (
    SELECT DISTINCT ON (event_key) id, event_key FROM held WHERE code = 'unroutable' ORDER BY event_key, seq) k
  WHERE coalesce((` + firstOfKeySQL + `), 'infinity') = 'infinity'
), back AS (
  UPDATE outbox_events o
  SET status = 'pending', retry_count = o.retry_count + h.spends,
      available_at = CASE WHEN h.code <> 'unroutable' OR o.id = ANY (ARRAY(SELECT id FROM probes))
                          THEN now() + h.delay * interval '1 second' ELSE 'infinity' END,
      lease_token = NULL, locked_by = NULL, failure_code = h.code, failure_reason = h.reason
  FROM held h WHERE o.id = h.id
  RETURNING o.aggregate_type, o.aggregate_id, o.aggregate_version, o.available_at
), later AS (
  UPDATE outbox_events n SET available_at = b.available_at
  FROM back b WHERE ` + laterSQL + ` AND n.available_at < b.available_at
)
SELECT count(*) FROM back`

// Reschedule puts events of a claim back to pending, due after their delays; but of the
// unroutable ones of a key only one, until [Store.BringBack]. It returns how many it did:
// fewer than asked means that a lease was lost and somebody else holds the event.
func (s *Store) Reschedule(ctx context.Context, token uuid.UUID, setbacks []Setback) (int, error) {
	args := columns(setbacks)
	args["token"] = token
	held, err := s.back(ctx, rescheduleSQL, args)
	if err != nil {
		return 0, fmt.Errorf("rescheduling events: %w", err)
	}
	return held, nil
}

// releaseSQL finds its rows by their ids: by the token alone it would scan every
// pending row. It moves the later events as well: they would be due before the one
// that they wait for.
const releaseSQL = `
WITH held AS MATERIALIZED (
  SELECT id FROM outbox_events
  WHERE id = ANY (@ids) AND lease_token = @token AND status = 'in_progress'
  ORDER BY id FOR UPDATE
), back AS (
  UPDATE outbox_events o
  SET status = 'pending', available_at = now(), lease_token = NULL, locked_by = NULL
  FROM held h WHERE o.id = h.id
  RETURNING o.aggregate_type, o.aggregate_id, o.aggregate_version, o.available_at
), later AS (
  UPDATE outbox_events n SET available_at = b.available_at
  FROM back b WHERE ` + laterSQL + ` AND n.available_at < b.available_at
)
SELECT count(*) FROM back`

// Release gives events of a claim back untouched: due at once, no attempt spent.
// It returns how many were still held.
func (s *Store) Release(ctx context.Context, token uuid.UUID, ids []uuid.UUID) (int, error) {
	held, err := s.back(ctx, releaseSQL, map[string]any{"ids": uuids(ids), "token": token})
	if err != nil {
		return 0, fmt.Errorf("releasing events: %w", err)
	}
	return held, nil
}

func (s *Store) back(ctx context.Context, statement string, args map[string]any) (held int, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		return tx.Gorm(ctx).Raw(statement, args).Scan(&held).Error
	})
	return held, err
}

// failSQL ends the attempts: the row stays, visible and replayable. Its aggregate's
// later events are parked, since no time brings them back.
const failSQL = `
WITH failed AS (
  UPDATE outbox_events
  SET status = 'failed', failed_at = now(), retry_count = retry_count + @spends,
      lease_token = NULL, locked_by = NULL, failure_code = @code, failure_reason = @reason
  WHERE id = @id AND lease_token = @token AND status = 'in_progress'
  RETURNING aggregate_type, aggregate_id, aggregate_version, failed_at
), later AS (
  UPDATE outbox_events n SET available_at = 'infinity'
  FROM failed b WHERE ` + laterSQL + ` AND n.available_at < 'infinity'
)
SELECT failed_at FROM failed`

// Fail gives an event up and returns when, by the database's clock. It returns 0 for
// held when the lease was lost, else 1.
func (s *Store) Fail(ctx context.Context, token uuid.UUID, failure Setback) (at time.Time, held int, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		result := tx.Gorm(ctx).Raw(failSQL, map[string]any{
			"id": failure.ID, "token": token, "spends": count(failure.Spends),
			"code": failure.Code, "reason": truncate(failure.Reason),
		}).Scan(&at)
		held = int(result.RowsAffected)
		return result.Error
	})
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("giving up event %s: %w", failure.ID, err)
	}
	return at, held, nil
}

func (s *Store) exec(ctx context.Context, statement string, args map[string]any) (int, error) {
	var n int64
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		result := tx.Gorm(ctx).Exec(statement, args)
		n = result.RowsAffected
		return result.Error
	})
	return int(n), err
}
