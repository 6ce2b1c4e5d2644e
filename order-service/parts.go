package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/prom"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// parts are the parts of this service, wired together.
type parts struct {
	config     config
	orders     *order.Service
	apiMetrics *httpapi.Metrics
	relay      *outbox.Relay
	waker      *outbox.Waker
	decisions  *operate.Log
}

// assemble makes the parts. In a process with a relay, each commit wakes that relay. Otherwise it
// wakes the relays of other processes.
func assemble(c config, db, relayDB *postgres.DB, relays bool, registry prometheus.Registerer) (parts, error) {
	p := parts{
		config: c, apiMetrics: httpapi.NewMetrics(registry),
		waker: outbox.NewWaker(relayDB.Pool()), decisions: operate.NewLog(relayDB.Pool()),
	}
	wake := p.waker.Wake
	if relays {
		var err error
		if p.relay, err = outbox.NewRelay(relayDB.Pool(), c.broker(), c.relay()); err != nil {
			return parts{}, err
		}
		registry.MustRegister(prom.Collector(p.relay, nil))
		wake = p.relay.Wake
	}
	p.orders = order.NewService(db, wake)
	return p, nil
}

// broker is where the relay publishes.
func (c config) broker() *rabbitmq.Broker {
	broker := rabbitmq.NewBroker(c.AMQPURL.Reveal(), exchange)
	broker.ConnectionName = service + " relay"
	broker.Topology = topology
	broker.FreshURL = settings.Fresh("AMQP_URL")
	return broker
}

// runAll runs the API and the relay in one process.
func (p parts) runAll(ctx context.Context) error { return p.runAPI(ctx, p.runRelay) }

// runAPIOnly runs the API without a relay.
func (p parts) runAPIOnly(ctx context.Context) error {
	if !p.config.OutboxNotify {
		return p.runAPI(ctx, nil)
	}
	return p.runAPI(ctx, p.waker.Run)
}

// runAPI runs the API, and beside it another part. That one ends after the API, because the last
// order still needs it.
func (p parts) runAPI(ctx context.Context, other func(context.Context) error) error {
	untilAPIEnds, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer stop()
		return p.serveOrders(ctx)
	})
	if other != nil {
		all.Go(func() error { return other(untilAPIEnds) })
	}
	return all.Wait()
}

// serveOrders serves the API and prunes old idempotency keys.
func (p parts) serveOrders(ctx context.Context) error {
	listener, err := httpserver.Listen(ctx, "HTTP_ADDR", p.config.HTTPAddr)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "taking orders", "address", listener.Addr().String())
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return p.orders.KeepPruned(ctx, p.config.IdempotencyRetention) })
	both.Go(func() error {
		api := httpapi.New(p.orders, p.config.limits(), p.apiMetrics)
		return httpserver.Serve(ctx, listener, maxConnections, api)
	})
	return both.Wait()
}

// runRelay publishes events and keeps the outbox small.
func (p parts) runRelay(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return p.decisions.Run(ctx, p.config.AuditRetention) })
	both.Go(func() error { return p.relay.Run(ctx) })
	return both.Wait()
}

const (
	service  = "order-service"
	exchange = "outbox.events" // for all events. Consumers bind their own queues to it.
)

var topology = rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}}}
