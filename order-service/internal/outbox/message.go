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

// Append stores m in tx, with the trace that ctx belongs to. The relay sees m when
// tx commits, and never when it does not.
func Append(ctx context.Context, tx *postgres.Tx, m Message) error {
	row := event{
		ID: m.ID, AggregateType: m.AggregateType, AggregateID: m.AggregateID, AggregateVersion: m.AggregateVersion,
		EventKey: m.EventKey, Payload: string(m.Payload), Traceparent: telemetry.Traceparent(ctx),
	}
	if err := tx.Gorm(ctx).Create(&row).Error; err != nil {
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

// event is a new row; every column that is not here has its default.
type event struct {
	ID               uuid.UUID
	AggregateType    string
	AggregateID      uuid.UUID
	AggregateVersion int
	EventKey         string
	Payload          string
	Traceparent      string
}

// TableName is gorm's way to ask.
func (event) TableName() string { return "outbox_events" }
