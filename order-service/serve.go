package main

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/migrations"
)

// exchange is where every event of this service goes.
const exchange = "outbox.events"

var (
	schema   = postgres.Migrations{Files: migrations.Files, Command: service + " migrate"}
	topology = rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}}}
)

// Connections to the database. The relay has a pool of its own, so that a flood of
// requests cannot keep it from publishing.
const (
	apiConnections   = 20
	spareConnections = 2 // beyond one for each relay worker
)

func serve(ctx context.Context, c config) error {
	return withOps(ctx, c, func(ctx context.Context, db *postgres.DB) error {
		return withRelayPool(ctx, c, func(relayDB *postgres.DB) error {
			return together(ctx, c, db, relay.New(c.relay(), outbox.NewStore(relayDB)))
		})
	})
}

func serveAPI(ctx context.Context, c config) error {
	return withOps(ctx, c, func(ctx context.Context, db *postgres.DB) error {
		return answerRequests(ctx, c, order.NewService(db, func() {}))
	})
}

func serveRelay(ctx context.Context, c config) error {
	return withOps(ctx, c, func(ctx context.Context, _ *postgres.DB) error {
		return withRelayPool(ctx, c, func(relayDB *postgres.DB) error {
			return publishEvents(ctx, c, relay.New(c.relay(), outbox.NewStore(relayDB)))
		})
	})
}

// withOps opens the database, answers on OPS_ADDR, and runs work once the database
// is there and migrated.
func withOps(ctx context.Context, c config, work func(context.Context, *postgres.DB) error) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), apiConnections)
	if err != nil {
		return err
	}
	defer db.Close()
	// Not the broker: an order is taken while the broker is away. That is the point.
	ready := func(ctx context.Context) error { return db.Ready(ctx, schema) }
	ops := httpserver.Ops(ready, telemetry.NewRegistry())
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, func(ctx context.Context) error {
		if db.Wait(ctx, schema) != nil {
			return nil // asked to end before the database came
		}
		defer slog.InfoContext(ctx, "stopped")
		return work(ctx, db)
	})
}

func withRelayPool(ctx context.Context, c config, work func(*postgres.DB) error) error {
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), int32(c.RelayWorkers)+spareConnections) //nolint:gosec // checked to be small
	if err != nil {
		return err
	}
	defer db.Close()
	return work(db)
}

// together runs API and relay in one process: each commit wakes the relay. The
// relay ends after the API, so that it is there for the last order.
func together(ctx context.Context, c config, db *postgres.DB, r *relay.Relay) error {
	relaying, stopRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRelay()
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer stopRelay()
		return answerRequests(ctx, c, order.NewService(db, r.Wake))
	})
	parts.Go(func() error { return publishEvents(relaying, c, r) })
	return parts.Wait()
}

func answerRequests(ctx context.Context, c config, orders *order.Service) error {
	listener, err := httpserver.Listen(ctx, "HTTP_ADDR", c.HTTPAddr)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "taking orders", "address", listener.Addr().String())
	return httpserver.Serve(ctx, listener, httpapi.New(orders))
}

func publishEvents(ctx context.Context, c config, r *relay.Relay) error {
	connection := rabbitmq.Config{URL: c.AMQPURL.Reveal(), Name: service + " relay"}
	return rabbitmq.Keep(ctx, connection, func(ctx context.Context, s *rabbitmq.Session) error {
		if err := s.Declare(topology); err != nil {
			return err
		}
		return r.Run(ctx, broker{s})
	})
}

// broker lets the relay see a session through its own interface.
type broker struct{ *rabbitmq.Session }

// NewPublisher opens a channel.
func (b broker) NewPublisher(window int) (relay.Publisher, error) {
	return b.Session.NewPublisher(window)
}
