package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/cdc/feed"
	"example.com/transactional-outbox/order-service/cdc/wal"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/migrations"
)

var schema = postgres.Migrations{Files: migrations.Files, Grants: migrations.Grants, Command: service + " migrate"}

// connections are enough for two relays with one worker each, the janitor, and the checks.
const connections = 6

func run(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), connections, postgres.WithoutWaitingForDisk)
	if err != nil {
		return err
	}
	defer db.Close()
	registry := telemetry.NewRegistry()
	p := assemble(c, db, registry)
	ready := func(ctx context.Context) error { return db.Ready(ctx, schema) }
	ops := httpserver.Ops(ready, registry, http.NotFoundHandler())
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, func(ctx context.Context) error {
		if db.Wait(ctx, schema) != nil {
			return nil // the process was asked to end before the database came
		}
		defer func() {
			n := p.feed.Counts()
			slog.InfoContext(ctx, "stopped", "claimed", n.Claimed, "batches", n.Batches, "left", n.Left, "unseen", n.Unseen)
		}()
		return p.run(ctx)
	})
}

// parts are the parts of the program. Two relays publish on one session: fromLog has the events of
// the log, and fromPoll the events that the feed leaves to it.
type parts struct {
	config   config
	store    *outbox.Store
	feed     *feed.Feed
	reader   *wal.Reader
	watch    *wal.Watch
	fromLog  *relay.Relay
	fromPoll *relay.Relay
}

func assemble(c config, db *postgres.DB, registry *prometheus.Registry) parts {
	store := outbox.NewStore(db)
	registry.MustRegister(store.Metrics())
	metrics, slot := relay.NewMetrics(registry), wal.NewMetrics(registry)
	events := feed.New(store)
	fromLog := relay.New(c.relay(), events, metrics)
	events.OnAdd(fromLog.Wake)
	fromPoll := relay.New(c.relay(), feed.NewLeft(store, db, c.RelayPollInterval), metrics)
	fromPoll.Beside(fromLog) // a refusal counts only if the broker accepts events of the other relay
	return parts{
		config: c, store: store, feed: events,
		reader:   wal.NewReader(c.wal(), events, slot),
		watch:    &wal.Watch{DB: db, Slot: c.Slot, Max: int64(c.MaxWAL) << 20, Feed: events, Metrics: slot},
		fromLog:  fromLog,
		fromPoll: fromPoll,
	}
}

// run stops the relays first, and then the reader, which acknowledges what they have settled.
func (p parts) run(ctx context.Context) error {
	untilRelaysEnd, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer stop()
		return p.publish(ctx)
	})
	all.Go(func() error { return p.reader.Run(untilRelaysEnd) })
	all.Go(func() error { return p.watch.Run(ctx) })
	all.Go(func() error { return p.store.RunJanitor(ctx, p.config.OutboxRetention) })
	return all.Wait()
}

func (p parts) publish(ctx context.Context) error {
	connection := rabbitmq.Config{URL: p.config.AMQPURL.Reveal(), Name: "cdc relay"}
	return rabbitmq.KeepConnected(ctx, connection, func(ctx context.Context, s *rabbitmq.Session) error {
		if err := s.Declare(topology); err != nil {
			return err
		}
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return p.fromLog.Run(ctx, broker{s}) })
		both.Go(func() error { return p.fromPoll.Run(ctx, broker{s}) })
		return both.Wait()
	})
}
