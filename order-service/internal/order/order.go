// Package order is the business: what an order is, and the one transaction in
// which it and its event are committed together.
package order

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Status is where an order stands: pending, then confirmed or cancelled.
type Status string

// The three statuses. What is confirmed or cancelled stays so.
const (
	Pending   Status = "pending"
	Confirmed Status = "confirmed"
	Cancelled Status = "cancelled"
)

// Order is what a customer ordered, at the price of that moment.
type Order struct {
	ID            uuid.UUID
	Version       int // raised by each event; the newest event has it
	CustomerID    uuid.UUID
	CustomerEmail string // empty for a guest who gave none
	ProductID     string
	Quantity      int
	Amount        Money // unit price × quantity
	Status        Status
	CreatedAt     time.Time // by the database's clock
}

// Request is what a customer may say of a new order. The price is not among it.
type Request struct {
	ProductID     string
	Quantity      int
	CustomerID    uuid.UUID // uuid.Nil: a guest, who gets a new id
	CustomerEmail string
	// IdempotencyKey makes all requests with it one: the first is placed, the others get
	// its order. Empty: each request is one of its own.
	IdempotencyKey string
}

// Product is an entry of the catalogue.
type Product struct {
	ID        string
	Name      string
	UnitPrice Money
}

// MaxQuantity bounds one order.
const MaxQuantity = 10_000

var (
	// ErrNoProduct says that the catalogue has no such product.
	ErrNoProduct = errors.New("no such product")
	// ErrNoOrder says that there is no order of that id.
	ErrNoOrder = errors.New("no such order")
	// ErrQuantity says that the quantity is not from 1 to MaxQuantity.
	ErrQuantity = errors.New("quantity out of range")
)

// StatusError says that an order's status does not allow the change.
type StatusError struct{ Status Status }

// Error names the status.
func (e *StatusError) Error() string { return "the order is " + string(e.Status) }

// place makes a new order of product. It does not touch the database.
func place(r Request, product Product, now time.Time) (Order, error) {
	if r.Quantity < 1 || r.Quantity > MaxQuantity {
		return Order{}, ErrQuantity
	}
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
		CreatedAt: now.UTC(),
	}, nil
}
