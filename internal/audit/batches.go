package audit

import (
	"context"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// Batch is a row of the table: what one transaction changed.
type Batch struct {
	ID uuid.UUID
	By
	Action     Action
	At         time.Time
	Items      []string
	FinishedAt *time.Time
	Done       *int
}

const batchesSQL = `
SELECT id, decision, operator, via, action, filter, at, items, finished_at, done
FROM operator_decisions WHERE decision = @decision AND id > @after ORDER BY id LIMIT @limit`

// Batches returns at most limit batches of a decision, in their order: those after a batch, or the
// first ones if after is [uuid.Nil].
func (l *Log) Batches(ctx context.Context, decision, after uuid.UUID, limit int) ([]Batch, error) {
	args := postgres.Args{"decision": decision, "after": after, "limit": limit}
	return read[Batch](ctx, l.db, batchesSQL, args)
}

// ofSQL finds the rows by the index of items, and returns only those items that were asked for. A
// sort of all that match comes last, so no plan reads the table in the order of time instead.
const ofSQL = `
WITH found AS MATERIALIZED (
  SELECT * FROM operator_decisions WHERE items && cast(@items AS text[])
)
SELECT id, decision, operator, via, action, filter, at,
       ARRAY(SELECT i FROM unnest(items) i WHERE i = ANY (cast(@items AS text[]))) AS items, finished_at, done
FROM found ORDER BY at DESC, id DESC LIMIT @limit`

// Of returns at most limit batches that are about one of the items, the newest first. Their Items
// are only those that were asked for.
func (l *Log) Of(ctx context.Context, items []string, limit int) ([]Batch, error) {
	return read[Batch](ctx, l.db, ofSQL, postgres.Args{"items": storable(items), "limit": limit})
}
