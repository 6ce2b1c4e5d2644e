package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/telemetry"
)

// Message is an event on its way out.
type Message struct {
	ID               uuid.UUID // the broker's message id, the same in every repeat
	AggregateType    string    // "order"
	AggregateID      uuid.UUID // whose events leave in the order of their versions
	AggregateVersion int       // from 1, without a gap
	EventKey         string    // "order.created": the type and the routing key
	Payload          []byte    // JSON
}

// appendSQL makes the event due now, or together with an older event of its
// aggregate that is backed off: a row that is due and blocked would be in the way of
// each claim.
const appendSQL = `
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent, available_at)
SELECT @id, @type, @aggregate, @version, @key, @payload, @traceparent, greatest(now(), max(older.available_at))
FROM outbox_events older
WHERE older.aggregate_type = @type AND older.aggregate_id = @aggregate
  AND older.aggregate_version < @version AND older.status = 'pending'`

// Append stores m in tx, with the trace that ctx belongs to. The relay sees m when
// tx commits, and never when it does not.
func Append(ctx context.Context, tx *postgres.Tx, m Message) error {
	err := tx.Gorm(ctx).Exec(appendSQL, map[string]any{
		"id": m.ID, "type": m.AggregateType, "aggregate": m.AggregateID, "version": m.AggregateVersion,
		"key": m.EventKey, "payload": string(m.Payload), "traceparent": telemetry.Traceparent(ctx),
	}).Error
	if err != nil {
		return fmt.Errorf("appending %s to the outbox: %w", m.EventKey, err)
	}
	return nil
}

// Event is what became of a message.
type Event struct {
	ID          uuid.UUID
	EventKey    string
	Status      string
	RetryCount  int
	CreatedAt   time.Time
	PublishedAt *time.Time
	FailureCode *string
}

// History returns the events of one aggregate, oldest first.
func History(ctx context.Context, tx *postgres.Tx, aggregateType string, aggregateID uuid.UUID) ([]Event, error) {
	var events []Event
	err := tx.Gorm(ctx).Table("outbox_events").
		Where("aggregate_type = ? AND aggregate_id = ?", aggregateType, aggregateID).
		Order("aggregate_version").Find(&events).Error
	if err != nil {
		return nil, fmt.Errorf("reading the events of %s %s: %w", aggregateType, aggregateID, err)
	}
	return events, nil
}
