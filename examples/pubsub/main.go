// Command pubsub is the library's relay with another destination: it publishes the events of an
// outbox, here order-service's, to Google Pub/Sub.
package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/prom"
)

const service = "order-service-pubsub"

func main() {
	command.Main(service,
		command.Command{Name: "relay", Does: "publish the outbox's events to Pub/Sub (the default)", Run: command.Configured(service, check, run)},
	)
}

// run publishes until ctx ends.
func run(ctx context.Context, c config) error {
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
