package order

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// Aggregate is the outbox's aggregate_type of orders.
const Aggregate = "order"

// The event keys.
const (
	keyCreated   = "order.created"
	keyConfirmed = "order.confirmed"
	keyCancelled = "order.cancelled"
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
func event(key string, o Order, occurred time.Time) (outbox.Message, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return outbox.Message{}, err
	}
	payload, err := json.Marshal(body{
		OrderID: o.ID, OrderVersion: o.Version, CustomerID: o.CustomerID, CustomerEmail: o.CustomerEmail,
		ProductID: o.ProductID, Quantity: o.Quantity, Amount: o.Amount.Minor(), Currency: o.Amount.Currency(),
		Status: o.Status, OccurredAt: occurred.UTC(),
	})
	if err != nil {
		return outbox.Message{}, fmt.Errorf("encoding %s: %w", key, err)
	}
	return outbox.Message{
		ID: id, AggregateType: Aggregate, AggregateID: o.ID, AggregateVersion: o.Version,
		EventKey: key, Payload: payload,
	}, nil
}
