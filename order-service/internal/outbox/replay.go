package outbox

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// chosenSQL holds what an operator decides about:
//
//   - status is asked for once more, in the lock: of two operators with the same
//     events, the second waits for the first and then finds them decided;
//   - ORDER BY id is the order in which everybody locks several events, so that no
//     two wait for each other for ever.
const chosenSQL = `
WITH chosen AS MATERIALIZED (
  SELECT id FROM outbox_events
  WHERE id = ANY (cast(@ids AS uuid[])) AND status = 'failed'
  ORDER BY id FOR UPDATE
)`

// replaySQL makes failed events as good as new, and due now. What the failure was is
// in the log and, as long as somebody keeps it, in the dead-letter queue.
const replaySQL = chosenSQL + `, replayed AS (
  UPDATE outbox_events o
  SET status = 'pending', retry_count = 0, available_at = now(),
      failure_code = NULL, failure_reason = NULL, failed_at = NULL
  FROM chosen c WHERE o.id = c.id
  RETURNING o.*
)
SELECT ` + entryColumns + ` FROM replayed ORDER BY id`

// Replay puts those of these events that are failed back to pending and returns them,
// by id. Their orders' later events follow them.
func (o *Operator) Replay(ctx context.Context, ids []uuid.UUID) ([]Entry, error) {
	replayed, err := o.decide(ctx, replaySQL, ids)
	if err != nil {
		return nil, fmt.Errorf("replaying events: %w", err)
	}
	return replayed, nil
}

// discardSQL keeps the reason and the time of the failure: they are why.
const discardSQL = chosenSQL + `, discarded AS (
  UPDATE outbox_events o SET status = 'discarded'
  FROM chosen c WHERE o.id = c.id
  RETURNING o.*
)
SELECT ` + entryColumns + ` FROM discarded ORDER BY id`

// Discard gives those of these events that are failed up for good and returns them,
// by id. Their orders' later events no longer wait for them.
func (o *Operator) Discard(ctx context.Context, ids []uuid.UUID) ([]Entry, error) {
	discarded, err := o.decide(ctx, discardSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("discarding events: %w", err)
	}
	return discarded, nil
}

func (o *Operator) decide(ctx context.Context, statement string, ids []uuid.UUID) (decided []Entry, err error) {
	err = o.db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := tx.Gorm(ctx).Raw(statement, map[string]any{"ids": uuids(ids)}).Scan(&decided).Error; err != nil {
			return err
		}
		settled := make([]uuid.UUID, 0, len(decided))
		for _, e := range decided {
			settled = append(settled, e.ID)
		}
		return unpark(tx, settled)
	})
	return decided, err
}
