package order

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox"
)

// Aggregate is the outbox's name for orders.
const Aggregate = "order"

// The topics of the events.
const (
	topicCreated   = "order.created"
	topicConfirmed = "order.confirmed"
	topicCancelled = "order.cancelled"
)

// body is the JSON of every order event. Consumers rely on each name, so the golden files of
// package contract must not change.
type body struct {
	OrderID       uuid.UUID `json:"order_id"`
	OrderVersion  int       `json:"order_version"`
	CustomerID    uuid.UUID `json:"customer_id"`
	CustomerEmail string    `json:"customer_email"`
	ProductID     string    `json:"product_id"`
	Quantity      int       `json:"quantity"`
	Amount        int64     `json:"amount"` // minor units of currency
	Currency      string    `json:"currency"`
	Status        Status    `json:"status"`
	OccurredAt    time.Time `json:"occurred_at"`
}

// event returns the event about o, which changed at the given time.
func event(topic string, o Order, occurred time.Time) (outbox.Event, error) {
	payload, err := json.Marshal(body{
		OrderID: o.ID, OrderVersion: o.Version, CustomerID: o.CustomerID, CustomerEmail: o.CustomerEmail,
		ProductID: o.ProductID, Quantity: o.Quantity, Amount: o.Amount.Minor(), Currency: o.Amount.Currency(),
		Status: o.Status, OccurredAt: occurred.UTC(),
	})
	if err != nil {
		return outbox.Event{}, fmt.Errorf("encoding %s: %w", topic, err)
	}
	return outbox.Event{
		Topic: topic, Aggregate: Aggregate, AggregateID: o.ID.String(), Version: o.Version, Payload: payload,
	}, nil
}
