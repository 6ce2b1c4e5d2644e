package main

import (
	"context"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/stage"
	orderpage "example.com/transactional-outbox/order-service/internal/page"
)

// page opens the page at / of OPS_ADDR, with a pool of its own. The caller closes it.
func (p parts) page(ctx context.Context, relays bool) (view *page.Page, closePage func(), err error) {
	view, err = page.New(page.Config{Service: service, Peer: "notification-service"}.With(p.config.Shared))
	if err != nil {
		return nil, nil, err
	}
	db, err := page.OpenDatabase(ctx, p.config.DatabaseURL.Reveal())
	if err != nil {
		return nil, nil, err
	}
	orderpage.Register(view, orderpage.Dependencies{
		DB: db, Relay: relays, WaitsFor: p.waitsFor,
	})
	return view, db.Close, nil
}

// waitsFor returns what the relay waits for, for the page.
func (p parts) waitsFor() []string {
	if what := p.publishing.WaitsFor(); what != stage.Nothing {
		return []string{what}
	}
	return nil
}
