// Package page has order-service's pages: the numbers of the overview, failed events and decisions
// about them, one order's way, and the search. It only formats; the SQL is in package operate.
package page

import (
	"example.com/transactional-outbox/internal/auditpage"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/outbox/operate"
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
	p.Numbers(newNumbers(d).count)
	e := events{
		page: p, operator: operate.New(d.DB.Pool()), orders: order.NewService(d.DB, func() {}),
		log: operate.NewLog(d.DB.Pool()),
	}
	p.Section("/failed", "Failed events")
	p.Handle("GET /failed", page.Read, e.list)
	p.Handle("GET /failed/{id}", page.Read, e.detail)
	p.Handle("POST /failed/preview", page.Operate, e.preview)
	p.Handle("POST /failed/decide", page.Operate, e.decide)
	p.Handle("GET /orders/{id}", page.Read, e.way)
	p.Handle("GET /find", page.Read, e.find)
	auditpage.Register(p, e.log, "event")
}

// events are the pages about events and their orders.
type events struct {
	page     *page.Page
	operator *operate.Operator
	orders   *order.Service // for reading only
	log      *operate.Log
}
