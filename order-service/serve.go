package main

import (
	"context"
	"log/slog"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/operatorpage"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox/page"
)

var schema = migrations.Schema

// Connections to the database. The relay has its own pool, so that many requests cannot
// keep it from publishing.
const (
	apiConnections   = 20
	spareConnections = 4 // beyond one for each relay worker: for leases and the janitor, and two for a scrape
)

func serve(ctx context.Context, c config) error {
	return start(ctx, c, withRelay, parts.runAll)
}

func serveAPI(ctx context.Context, c config) error {
	return start(ctx, c, !withRelay, parts.runAPIOnly)
}

func serveRelay(ctx context.Context, c config) error {
	return start(ctx, c, withRelay, parts.runRelay)
}

// withRelay says that a process has a relay.
const withRelay = true

// start opens the database and answers on OPS_ADDR. It calls run when the database is there
// and migrated.
func start(ctx context.Context, c config, relays bool, run func(parts, context.Context) error) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), apiConnections, postgres.Fresh(settings.Fresh("DATABASE_URL")))
	if err != nil {
		return err
	}
	defer db.Close()
	relayDB, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), int32(c.RelayWorkers)+spareConnections, postgres.Fresh(settings.Fresh("DATABASE_URL"))) //nolint:gosec // checked to be small
	if err != nil {
		return err
	}
	defer relayDB.Close()

	registry := telemetry.NewRegistry()
	registry.MustRegister(db.Metrics("api"), relayDB.Metrics("relay"), relayDB.OldestTransaction())
	p, err := assemble(c, db, relayDB, relays, registry)
	if err != nil {
		return err
	}

	// The broker is not part of it: the API takes orders while the broker is unavailable. The check
	// uses the relay's pool, because a replica whose API uses all its connections is still ready.
	ready := []httpserver.Check{{Name: "the database", Ready: func(ctx context.Context) error { return relayDB.Ready(ctx, schema) }}}
	view, closePage, err := operatorpage.Open(ctx, p.page(), c.Page, c.Shared, registry)
	if err != nil {
		return err
	}
	defer closePage()
	ops := httpserver.Ops(ready, registry, view)
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, func(ctx context.Context) error {
		if db.Wait(ctx, schema) != nil {
			return nil // the process was asked to end before the database came
		}
		defer slog.InfoContext(ctx, "stopped")
		return run(p, ctx)
	})
}

// page is what operators see of the outbox.
func (p parts) page() page.Config {
	c := page.Config{
		Name: service, Destination: "the broker", Aggregate: "order",
		Runbook: page.Runbook{
			Relay: "RelayNotUp", Database: "DatabaseAway", Paused: "OutboxTopicPaused", Failed: "OutboxEventsFailed", Late: "OutboxOldestEventTooOld",
		},
	}
	if p.relay != nil {
		c.Health = p.relay.Health
	}
	return c
}
