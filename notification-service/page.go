package main

import (
	"context"

	"example.com/transactional-outbox/internal/page"
	mailpage "example.com/transactional-outbox/notification-service/internal/page"
)

// page opens the page at / of OPS_ADDR, with a pool of its own. The caller closes it.
func (p parts) page(ctx context.Context) (view *page.Page, closePage func(), err error) {
	view, err = page.New(page.Config{Service: service, Peer: "order-service", PeerFirst: true}.With(p.config.Shared))
	if err != nil {
		return nil, nil, err
	}
	db, err := page.OpenDatabase(ctx, p.config.DatabaseURL.Reveal())
	if err != nil {
		return nil, nil, err
	}
	mailpage.Register(view, mailpage.Dependencies{
		DB: db, Broker: p.config.connection("page"), WaitsFor: p.waitsFor, Letters: p.config.deadLetters,
		Queue: queue, DeadLetters: deadLetterQueue, Retries: retryTiers(p.config.RetryDelays),
	})
	return view, db.Close, nil
}
