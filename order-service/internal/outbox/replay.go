package outbox

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/postgres"
)

// chosenSQL locks the events that an operator decides about:
//
//   - the condition is checked again under the lock: if two operators choose the same events, the
//     second waits for the first and then finds no failed events;
//   - everybody locks events in the order of their ids. So no two transactions deadlock.
const chosenSQL = `
WITH chosen AS MATERIALIZED (
  SELECT * FROM outbox_queue
  WHERE id = ANY (@ids) AND failed_at <= @failed_until
  ORDER BY id FOR UPDATE
)`

// replaySQL resets failed events to the state of new ones, due now. The failure remains in the
// service's log and, until somebody deletes it, in the dead-letter queue.
const replaySQL = chosenSQL + `
UPDATE outbox_queue
SET retry_count = 0, available_at = now(), failure_code = NULL, failure_reason = NULL, failed_at = NULL
WHERE id IN (SELECT id FROM chosen)
RETURNING id`

// Replay makes the failed ones of these events pending, and returns them, ordered by id. The later
// events of their orders follow them. In the same transaction it records who decided that.
func (o *Operator) Replay(ctx context.Context, by audit.By, ids []uuid.UUID) ([]Entry, error) {
	replayed, err := o.decide(ctx, by, audit.Replay, replaySQL, ids)
	if err != nil {
		return nil, fmt.Errorf("replaying events: %w", err)
	}
	for _, e := range replayed {
		slog.InfoContext(ctx, "event replayed", e.attributes(by)...)
	}
	return replayed, nil
}

// discardSQL keeps the reason and the time of the failure: they explain the decision.
const discardSQL = chosenSQL + `, done AS (
  DELETE FROM outbox_queue WHERE id IN (SELECT id FROM chosen)
)
INSERT INTO outbox_discarded (id, failed_at, retry_count, failure_code, failure_reason)
SELECT id, failed_at, retry_count, failure_code, failure_reason FROM chosen
RETURNING id`

// Discard discards the failed ones of these events, and returns them, ordered by id. They will never
// be published. The later events of their orders no longer wait for them. In the same transaction it
// records who decided that.
func (o *Operator) Discard(ctx context.Context, by audit.By, ids []uuid.UUID) ([]Entry, error) {
	discarded, err := o.decide(ctx, by, audit.Discard, discardSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("discarding events: %w", err)
	}
	for _, e := range discarded {
		slog.InfoContext(ctx, "event discarded", e.attributes(by)...)
	}
	return discarded, nil
}

func (e Entry) attributes(by audit.By) []any {
	return []any{"message_id", e.ID, "event_key", e.EventKey, "aggregate_id", e.AggregateID, "by", by.Operator}
}

// decide runs a decision, records it, and returns the events with their new status. The record has
// the ids that were changed, and not those that were chosen.
func (o *Operator) decide(
	ctx context.Context, by audit.By, action audit.Action, statement string, ids []uuid.UUID,
) (decided []Entry, err error) {
	err = o.db.InTx(ctx, func(tx *postgres.Tx) error {
		chosen, err := postgres.Read(ctx, tx, statement, postgres.Args{"ids": uuids(ids), "failed_until": o.failedUntil}, pgx.RowTo[uuid.UUID])
		if err != nil || len(chosen) == 0 {
			return err
		}
		if err := promote(tx, chosen); err != nil {
			return err
		}
		if err := audit.Record(tx, by, action, audit.IDs(chosen)); err != nil {
			return err
		}
		return tx.Gorm(ctx).Raw(getSQL, map[string]any{"ids": uuids(chosen)}).Scan(&decided).Error
	})
	return decided, err
}
