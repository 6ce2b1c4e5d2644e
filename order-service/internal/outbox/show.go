package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// ErrNoEvent says that there is no event of that id.
var ErrNoEvent = errors.New("no such event")

// Detail is everything about one event.
type Detail struct {
	Entry
	Seq         int64          `json:"seq"`
	AvailableAt time.Time      `json:"available_at,omitzero"` // none of a parked event
	LockedBy    *string        `json:"locked_by"`
	Traceparent string         `json:"traceparent"`
	Payload     jsontext.Value `json:"payload"`
	BlockedBy   []Entry        `json:"blocked_by" gorm:"-"` // its order's older events that are not settled
	Waiting     int            `json:"waiting"`             // how many of its order's later events wait for it
}

const (
	showSQL = `
SELECT ` + entryColumns + `, seq, nullif(available_at, 'infinity') AS available_at, locked_by, traceparent, payload
FROM outbox_events WHERE id = @id`

	blockedBySQL = `
SELECT ` + entryColumns + ` FROM outbox_events
WHERE (aggregate_type, aggregate_id) = (@type, @aggregate) AND aggregate_version < @version
  AND status NOT IN ('published', 'discarded')
ORDER BY aggregate_version`

	waitingSQL = `
SELECT count(*) FROM outbox_events
WHERE (aggregate_type, aggregate_id) = (@type, @aggregate) AND aggregate_version > @version
  AND status NOT IN ('published', 'discarded')`
)

// Show returns all of one event, as of one moment, or [ErrNoEvent].
func (o *Operator) Show(ctx context.Context, id uuid.UUID) (d Detail, err error) {
	err = o.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		found := tx.Gorm(ctx).Raw(showSQL, map[string]any{"id": id}).Scan(&d)
		if found.Error == nil && found.RowsAffected == 0 {
			return ErrNoEvent
		}
		if settled := d.Status == "published" || d.Status == "discarded"; found.Error != nil || settled {
			return found.Error // nothing holds a settled event, and it holds nothing
		}
		order := map[string]any{"type": d.AggregateType, "aggregate": d.AggregateID, "version": d.AggregateVersion}
		if err := tx.Gorm(ctx).Raw(blockedBySQL, order).Scan(&d.BlockedBy).Error; err != nil {
			return err
		}
		return tx.Gorm(ctx).Raw(waitingSQL, order).Scan(&d.Waiting).Error
	})
	if err != nil {
		return Detail{}, fmt.Errorf("reading event %s: %w", id, err)
	}
	return d, nil
}
