// Command pubsub is the relay of order-service with another publisher. It publishes the events of
// the same outbox to Google Pub/Sub. `order-service api` takes the orders.
package main

import (
	"context"
	"log/slog"
	"net/http"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/internal/wakeup"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/order-service/pubsub/googlepubsub"
)

const service = "order-service-pubsub"

func main() {
	command.Main(service,
		command.Command{Name: "relay", Does: "publish the outbox's events to Pub/Sub (the default)", Run: command.Configured(service, check, run)},
	)
}

var schema = postgres.Migrations{Files: migrations.Files, Grants: migrations.Grants, Command: "order-service migrate"}

// spareConnections are beyond one for each worker.
const spareConnections = 2

// run waits for the database, and then publishes until ctx ends.
func run(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	// If a crash of the database loses one of the relay's commits, the relay publishes that
	// batch again.
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), int32(c.RelayWorkers)+spareConnections, postgres.WithoutWaitingForDisk) //nolint:gosec // checked to be small
	if err != nil {
		return err
	}
	defer db.Close()
	registry := telemetry.NewRegistry()
	events := outbox.NewStore(db)
	registry.MustRegister(db.Metrics("relay"), db.OldestTransaction(), events.Metrics())
	r := relay.New(c.relay(), events, relay.NewMetrics(registry))
	listener := wakeup.NewListener(c.DatabaseURL.Reveal(), r.Wake, registry)
	ready := func(ctx context.Context) error { return db.Ready(ctx, schema) }
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, httpserver.Ops(ready, registry, http.NotFoundHandler()), func(ctx context.Context) error {
		if db.Wait(ctx, schema) != nil {
			return nil // the process was asked to end before the database came
		}
		defer slog.InfoContext(ctx, "stopped")
		all, ctx := errgroup.WithContext(ctx)
		all.Go(func() error { return events.RunJanitor(ctx, c.OutboxRetention) })
		all.Go(func() error { return listener.Run(ctx) })
		all.Go(func() error {
			googlepubsub.KeepConnected(ctx, c.pubsub(), func(ctx context.Context, s *googlepubsub.Session) error {
				return r.Run(ctx, s)
			})
			return nil
		})
		return all.Wait()
	})
}

func (c config) pubsub() googlepubsub.Config {
	return googlepubsub.Config{
		Project: c.Project, Topics: []string{c.Topic, c.DeadLetterTopic}, LookEvery: c.LookEvery,
	}
}
