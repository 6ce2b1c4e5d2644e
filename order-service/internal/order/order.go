// Package order is the business logic: what an order is, and the transaction that commits an
// order together with its event.
package order

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Status is the status of an order: pending, then confirmed or cancelled.
type Status string

// The three statuses. A confirmed or cancelled order does not change any more.
const (
	Pending   Status = "pending"
	Confirmed Status = "confirmed"
	Cancelled Status = "cancelled"
)

// Order is what a customer ordered, at the price at that time.
type Order struct {
	ID            uuid.UUID
	Version       int // each event increases it; the newest event has the same
	CustomerID    uuid.UUID
	CustomerEmail string // may be empty for a guest
	ProductID     string
	Quantity      int
	Amount        Money // unit price × quantity
	Status        Status
	CreatedAt     time.Time // by the database's clock
}

// Request is what a customer asks for. It has no price: that comes from the catalogue.
type Request struct {
	ProductID     string
	Quantity      int
	CustomerID    uuid.UUID // uuid.Nil is a guest, who gets a new id
	CustomerEmail string
	// IdempotencyKey makes requests repeatable: the first one with a key places an order, and
	// the others get that order. If it is empty, each request places a new order.
	IdempotencyKey string
}

// Product is an entry of the catalogue.
type Product struct {
	ID        string
	Name      string
	UnitPrice Money
}

// MaxQuantity is the largest quantity of an order.
const MaxQuantity = 10_000

var (
	// ErrNoProduct says that the catalogue has no such product.
	ErrNoProduct = errors.New("no such product")
	// ErrNoOrder says that there is no order with that id.
	ErrNoOrder = errors.New("no such order")
)

// StatusError says that an order's status does not allow the change.
type StatusError struct{ Status Status }

// Error names the status.
func (e *StatusError) Error() string { return "the order is " + string(e.Status) }

// place returns a new order for product. It does not use the database. The database sets the time.
func place(r Request, product Product) (Order, error) {
	amount, err := product.UnitPrice.Times(r.Quantity)
	if err != nil {
		return Order{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Order{}, err
	}
	if r.CustomerID == uuid.Nil {
		r.CustomerID = uuid.New()
	}
	return Order{
		ID: id, Version: 1, CustomerID: r.CustomerID, CustomerEmail: r.CustomerEmail,
		ProductID: r.ProductID, Quantity: r.Quantity, Amount: amount, Status: Pending,
	}, nil
}
