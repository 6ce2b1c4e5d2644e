package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/prom"
)

// serve publishes the events of the outbox until ctx ends.
func serve(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	defer slog.InfoContext(ctx, "stopped")
	pool, err := pgxpool.New(ctx, c.DatabaseURL.Reveal())
	if err != nil {
		return err
	}
	defer pool.Close()
	relay, err := outbox.NewRelay(pool, c.destination(), c.relay())
	if err != nil {
		return err
	}
	registry := telemetry.NewRegistry()
	registry.MustRegister(prom.Collector(relay, nil))
	ready := func(context.Context) error { return relay.Health() }
	ops := httpserver.Ops(ready, registry, http.NotFoundHandler())
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, relay.Run)
}
