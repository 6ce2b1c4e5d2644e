package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/net/netutil"
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

// What this service owns at the broker: where every event goes, and where copies of
// those go that could not be published.
const (
	exchange           = "outbox.events"
	deadLetterExchange = service + ".dlx"
	deadLetterQueue    = service + ".dlq"
)

var (
	schema   = postgres.Migrations{Files: migrations.Files, Grants: migrations.Grants, Command: service + " migrate"}
	topology = rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}, {Name: deadLetterExchange, Kind: "fanout"}},
		Queues: []rabbitmq.Queue{{
			Name:      deadLetterQueue,
			Arguments: map[string]any{"x-delivery-limit": rabbitmq.NoDeliveryLimit},
			Bindings:  []rabbitmq.Binding{{Exchange: deadLetterExchange}},
		}},
	}
)

// Connections to the database. The relay has a pool of its own, so that a flood of
// requests cannot keep it from publishing.
const (
	apiConnections   = 20
	spareConnections = 2 // beyond one for each relay worker
)

// parts is what this service is made of, wired together.
type parts struct {
	config   config
	orders   *order.Service
	requests *httpapi.Metrics
	events   *outbox.Store
	relay    *relay.Relay
}

func serve(ctx context.Context, c config) error      { return start(ctx, c, parts.runTogether) }
func serveAPI(ctx context.Context, c config) error   { return start(ctx, c, parts.answerRequests) }
func serveRelay(ctx context.Context, c config) error { return start(ctx, c, parts.publishEvents) }

// start opens everything in the order of the picture, answers on OPS_ADDR, and does
// the work once the database is there and migrated.
func start(ctx context.Context, c config, work func(parts, context.Context) error) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), apiConnections)
	if err != nil {
		return err
	}
	defer db.Close()
	// What a crash makes the relay's database forget, the relay publishes again.
	relayDB, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), int32(c.RelayWorkers)+spareConnections, postgres.WithoutWaitingForDisk) //nolint:gosec // checked to be small
	if err != nil {
		return err
	}
	defer relayDB.Close()

	registry := telemetry.NewRegistry()
	events := outbox.NewStore(relayDB)
	registry.MustRegister(db.Metrics("api"), relayDB.Metrics("relay"), relayDB.OldestTransaction(), events.Metrics())
	r := relay.New(c.relay(), events, relay.NewMetrics(registry))
	p := parts{config: c, orders: order.NewService(db, r.Wake), events: events, relay: r, requests: httpapi.NewMetrics(registry)}

	// Not the broker: an order is taken while the broker is away. That is the point. And not
	// on the API's connections: that requests use them all is no reason to send them elsewhere.
	ready := func(ctx context.Context) error { return relayDB.Ready(ctx, schema) }
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, httpserver.Ops(ready, registry), func(ctx context.Context) error {
		if db.Wait(ctx, schema) != nil {
			return nil // asked to end before the database came
		}
		defer slog.InfoContext(ctx, "stopped")
		return work(p, ctx)
	})
}

// runTogether runs API and relay in one process: each commit wakes the relay. The
// relay ends after the API, so that it is there for the last order.
func (p parts) runTogether(ctx context.Context) error {
	relaying, stopRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRelay()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		defer stopRelay()
		return p.answerRequests(ctx)
	})
	both.Go(func() error { return p.publishEvents(relaying) })
	return both.Wait()
}

// answerRequests serves the API, and forgets old idempotency keys.
func (p parts) answerRequests(ctx context.Context) error {
	listener, err := httpserver.Listen(ctx, "HTTP_ADDR", p.config.HTTPAddr)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "taking orders", "address", listener.Addr().String())
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return p.orders.KeepPruned(ctx, p.config.IdempotencyRetention) })
	both.Go(func() error {
		api := httpapi.New(p.orders, p.config.limits(), p.requests)
		return httpserver.Serve(ctx, netutil.LimitListener(listener, maxConnections), api)
	})
	return both.Wait()
}

// publishEvents relays, and keeps the outbox tidy.
func (p parts) publishEvents(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return p.events.KeepTidy(ctx, p.config.OutboxRetention) })
	both.Go(func() error { return p.keepRelaying(ctx) })
	return both.Wait()
}

// mismatchPause is how long the relay waits before it looks again at a topology that is
// not ours.
const mismatchPause = 10 * time.Second

// keepRelaying relays on one session after the other. While the broker has a queue or an
// exchange of our name with other properties, it says so and tries again: orders are taken
// all the same, and nobody has to start anything again once the broker is mended.
func (p parts) keepRelaying(ctx context.Context) error {
	connection := rabbitmq.Config{URL: p.config.AMQPURL.Reveal(), Name: service + " relay"}
	for {
		err := rabbitmq.Keep(ctx, connection, p.relayOn)
		if _, mismatch := errors.AsType[*rabbitmq.MismatchError](err); !mismatch {
			return err
		}
		slog.ErrorContext(ctx, "the relay does not run: the broker's topology is not ours", "in", mismatchPause.String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(mismatchPause):
		}
	}
}

func (p parts) relayOn(ctx context.Context, s *rabbitmq.Session) error {
	if err := s.Declare(topology); err != nil {
		return err
	}
	return p.relay.Run(ctx, broker{s})
}

// broker lets the relay see a session through its own interface.
type broker struct{ *rabbitmq.Session }

// NewPublisher opens a channel.
func (b broker) NewPublisher(window int) (relay.Publisher, error) {
	return b.Session.NewPublisher(window)
}
