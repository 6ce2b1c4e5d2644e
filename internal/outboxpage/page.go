// Package outboxpage has the pages of an outbox: its numbers, its failed events and the decisions
// about them, the events of an order, and the search. It only formats; the SQL is in the library's
// package operate.
package outboxpage

import (
	"example.com/transactional-outbox/internal/auditpage"
	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox/operate"
)

// aggregate is what the events are about.
const aggregate = "order"

// Config says whose outbox the pages show, in which words.
type Config struct {
	DB *postgres.DB // a small pool of its own
	// Relay is false if this process has no relay. WaitsFor says what its relay waits for; it is empty
	// while the relay works.
	Relay    bool
	WaitsFor func() []string

	Noun        cli.Noun // an event: "event" or "e-mail"
	Destination string   // where the events go, such as "the broker"
	Published   string   // what they are then, such as "published"
	Committed   string   // a sentence: what is in one transaction with an event
	Confirmed   string   // a sentence: what is certain about a published one
	FailedNote  string   // a sentence: what a failed one does to the others of its order
}

// Pages are the pages of an outbox.
type Pages struct {
	Config
	page     *page.Page
	operator *operate.Operator
	log      *operate.Log
}

// Register adds the pages to the frame: /failed and /audit. The service adds /orders/{id} with
// [Pages.Timeline], and /find with [Pages.Find].
func Register(frame *page.Page, c Config) Pages {
	p := Pages{Config: c, page: frame, operator: operate.New(c.DB.Pool()), log: operate.NewLog(c.DB.Pool())}
	frame.Section("/failed", "Failed "+string(c.Noun)+"s")
	frame.Handle("GET /failed", page.Read, p.list)
	frame.Handle("GET /failed/{id}", page.Read, p.detail)
	frame.Handle("POST /failed/preview", page.Operate, p.preview)
	frame.Handle("POST /failed/decide", page.Operate, p.decide)
	auditpage.Register(frame, p.log, c.Noun)
	return p
}
