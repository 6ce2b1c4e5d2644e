// Package page has notification-service's pages: those of its outbox, whose events are e-mails
// (package outboxpage), the numbers of its queues, and its dead letters. It only formats.
package page

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/internal/outboxpage"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Dependencies are what the pages need.
type Dependencies struct {
	DB *postgres.DB // a small pool of its own

	Broker  rabbitmq.Config // for the numbers of the queues
	Queue   rabbitmq.Queue  // the consumer's
	Letters dlq.Open        // its dead letters

	// They say what the consumer and the relay wait for. They are empty while these work.
	ConsumerWaitsFor func() []string
	RelayWaitsFor    func() []string
}

// Register adds the pages to the frame.
func Register(frame *page.Page, d Dependencies) {
	outbox := outboxpage.Register(frame, outboxpage.Config{
		DB: d.DB, Relay: true, WaitsFor: d.RelayWaitsFor,
		Noun: "e-mail", Destination: "the mail server", Published: "sent", Masked: true,
		Committed:  "The message's effect and this e-mail are one transaction.",
		Confirmed:  "The mail server has taken it.",
		FailedNote: "A failed e-mail holds back no other: the next one of its order supersedes it.",
	})
	n := newNumbers(d, outbox)
	frame.Numbers(n.count)
	frame.Background(n.queues.run)
	frame.Handle("GET /orders/{id}", page.Read, orders{frame, outbox}.order)
	frame.Handle("GET /find", page.Read, outbox.Find(outbox.HasEvents))
	frame.Section("/dead", "Dead letters")
	frame.Handle("GET /dead", page.Read, (&deadLetters{open: d.Letters}).list)
}

// orders are the pages about orders.
type orders struct {
	page   *page.Page
	outbox outboxpage.Pages
}

// order shows this service's half of an order's way.
func (o orders) order(ctx context.Context, r *page.Request) (page.Result, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return page.Result{}, page.Errorf(http.StatusNotFound, "This is not the id of an order.")
	}
	timeline, shown, err := o.outbox.Timeline(ctx, id.String())
	if err != nil {
		return page.Result{}, err
	}
	result := page.Show("Order " + id.String())
	if shown > 0 {
		result.Parts = append(result.Parts, timeline)
	} else {
		result.Status = http.StatusNotFound
		result.Parts = append(result.Parts, page.Message{
			Title: "No e-mail of this order is known here.",
			Text:  "No message about it has arrived, or it is longer ago than OUTBOX_RETENTION, or a newer message came first.",
		})
	}
	if other := o.page.PeerPage("/orders/" + id.String()); other != "" {
		result.Parts = append(result.Parts, page.Message{
			Title: "What came before the broker is in order-service.", Links: []page.Link{{Text: "Show it", To: other}},
		})
	}
	return result, nil
}
