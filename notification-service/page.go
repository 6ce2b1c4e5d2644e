package main

import (
	"context"
	"time"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/settings"
	mailpage "example.com/transactional-outbox/notification-service/internal/page"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// pageSession is how long a page waits for a session with the broker.
const pageSession = 1500 * time.Millisecond

// page opens the page at / of OPS_ADDR, with a pool of its own. The caller closes it. Consumer and
// relay say what these wait for, and nothing while they work.
func (c config) page(ctx context.Context, queue rabbitmq.Queue, consumer, relay func() []string) (view *page.Page, closePage func(), err error) {
	view, err = page.New(page.Config{Service: service, Peer: "order-service", PeerFirst: true}.With(c.Shared))
	if err != nil {
		return nil, nil, err
	}
	db, err := page.OpenDatabase(ctx, c.DatabaseURL.Reveal())
	if err != nil {
		return nil, nil, err
	}
	mailpage.Register(view, mailpage.Dependencies{
		DB: db, Queue: queue, Letters: c.deadLetters("page", pageSession),
		Broker:           rabbitmq.Config{URL: c.AMQPURL.Reveal(), FreshURL: settings.Fresh("AMQP_URL"), Name: service + " page"},
		ConsumerWaitsFor: consumer, RelayWaitsFor: relay,
	})
	return view, db.Close, nil
}

// waitsFor returns a function that returns what a consumer or a relay waits for, in words.
func waitsFor(part interface{ Health() error }) func() []string {
	return func() []string {
		if err := part.Health(); err != nil {
			return []string{err.Error()}
		}
		return nil
	}
}
