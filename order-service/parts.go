package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/stage"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/internal/wakeup"
)

// parts are the parts of this service, wired together.
type parts struct {
	config     config
	orders     *order.Service
	apiMetrics *httpapi.Metrics
	outbox     *outbox.Store
	decisions  *audit.Log
	relay      *relay.Relay
	publishing *stage.Stage // what the relay's connection to the broker waits for
	notifier   *wakeup.Notifier
	listener   *wakeup.Listener
}

func assemble(c config, db, relayDB *postgres.DB, registry prometheus.Registerer) parts {
	events := outbox.NewStore(relayDB)
	registry.MustRegister(events.Metrics())
	r := relay.New(c.relay(), events, relay.NewMetrics(registry))
	notifier := wakeup.NewNotifier(relayDB)
	committed := func() {
		r.Wake()
		notifier.Committed()
	}
	return parts{
		config: c, orders: order.NewService(db, committed), apiMetrics: httpapi.NewMetrics(registry),
		outbox: events, decisions: audit.NewLog(relayDB), relay: r, publishing: stage.New("a session with the broker"),
		notifier: notifier, listener: wakeup.NewListener(c.DatabaseURL.Reveal(), r.Wake, registry),
	}
}

// runAll runs the API and the relay in one process. Each commit wakes this relay. If it is
// busy, the commit wakes the relays of other processes.
func (p parts) runAll(ctx context.Context) error {
	return p.runAPI(ctx, p.runRelay, func(ctx context.Context) error { return p.notify(ctx, p.relay) })
}

// runAPIOnly runs the API without a relay. Each commit wakes the relays of other processes.
func (p parts) runAPIOnly(ctx context.Context) error {
	return p.runAPI(ctx, func(ctx context.Context) error { return p.notify(ctx, nil) })
}

// runAPI runs the API, and beside it the others. They end after the API, because its last
// order still needs them.
func (p parts) runAPI(ctx context.Context, others ...func(context.Context) error) error {
	untilAPIEnds, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer stop()
		return p.serveOrders(ctx)
	})
	for _, other := range others {
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
		return httpserver.Serve(ctx, netutil.LimitListener(listener, maxConnections), api)
	})
	return both.Wait()
}

// runRelay publishes events, and prunes and repairs the outbox.
func (p parts) runRelay(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return p.outbox.RunJanitor(ctx, p.config.OutboxRetention) })
	all.Go(func() error { return p.decisions.KeepPruned(ctx, p.config.AuditRetention) })
	all.Go(func() error { return p.listen(ctx) })
	all.Go(func() error { return publishEvents(ctx, p.config, p.relay, p.publishing) })
	return all.Wait()
}

// notify wakes the relays of other processes after the commits of this one.
func (p parts) notify(ctx context.Context, own wakeup.Relay) error {
	if !p.config.OutboxNotify {
		return nil
	}
	return p.notifier.Run(ctx, own)
}

// listen wakes this process's relay after the commits of other processes.
func (p parts) listen(ctx context.Context) error {
	if !p.config.OutboxNotify {
		return nil
	}
	return p.listener.Run(ctx)
}
