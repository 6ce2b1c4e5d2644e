// Package page has order-service's pages: those of its outbox (package outboxpage), and one order's
// way to the broker.
package page

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/outboxpage"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/order"
)

// Dependencies are what the pages need.
type Dependencies struct {
	DB *postgres.DB // a small pool of its own
	// WaitsFor says what the relay of this process waits for; it is empty while the relay works.
	// Relay is false if this process has no relay.
	Relay    bool
	WaitsFor func() []string
}

// Register adds the pages to the frame.
func Register(p *page.Page, d Dependencies) {
	o := orders{
		page: p, orders: order.NewService(d.DB, func() {}),
		outbox: outboxpage.Register(p, outboxpage.Config{
			DB: d.DB, Relay: d.Relay, WaitsFor: d.WaitsFor,
			Noun: "event", Destination: "the broker", Published: "published",
			Committed:  "The order and this event are one transaction.",
			Confirmed:  "The broker has confirmed it and routed it to a queue.",
			FailedNote: "A failed event holds back the later events of its order.",
		}),
	}
	p.Numbers(o.outbox.Numbers())
	p.Handle("GET /orders/{id}", page.Read, o.way)
	p.Handle("GET /find", page.Read, o.outbox.Find(o.isOrder))
}

// orders are the pages about orders.
type orders struct {
	page   *page.Page
	orders *order.Service // for reading only
	outbox outboxpage.Pages
}

func (o orders) isOrder(ctx context.Context, id uuid.UUID) (bool, error) {
	_, _, err := o.orders.Get(ctx, id)
	if errors.Is(err, order.ErrNoOrder) {
		return false, nil
	}
	return err == nil, err
}
