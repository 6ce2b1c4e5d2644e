package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/cdc/feed"
	"example.com/transactional-outbox/outbox/cdc/wal"
	"example.com/transactional-outbox/outbox/internal/source"
	"example.com/transactional-outbox/outbox/prom"
)

// run publishes until ctx ends. The relay is the library's; only the source of its events is another.
func run(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	pool, err := pgxpool.New(ctx, c.DatabaseURL.Reveal())
	if err != nil {
		return err
	}
	defer pool.Close()
	relay, err := outbox.NewRelay(pool, c.broker(), c.relay())
	if err != nil {
		return err
	}
	registry := telemetry.NewRegistry()
	slot := wal.NewMetrics(registry)
	registry.MustRegister(prom.Collector(relay, nil))

	events := feed.New(pool, c.RelayPollInterval)
	events.OnAdd(relay.Wake)
	source.Replace(relay, events)
	p := parts{
		relay: relay, reader: wal.NewReader(c.wal(), events, slot),
		watch: &wal.Watch{Pool: pool, Slot: c.Slot, Max: int64(c.MaxWAL) << 20, Feed: events, Metrics: slot},
	}
	defer func() {
		n := events.Counts()
		slog.InfoContext(ctx, "stopped", "claimed", n.Claimed, "batches", n.Batches, "left", n.Left, "unseen", n.Unseen)
	}()
	ready := func(context.Context) error { return relay.Health() }
	ops := httpserver.Ops(ready, registry, http.NotFoundHandler())
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, p.run)
}

// parts are what runs at the same time.
type parts struct {
	relay  *outbox.Relay
	reader *wal.Reader
	watch  *wal.Watch
}

// run stops the relay first, and then the reader, which acknowledges what the relay has settled.
func (p parts) run(ctx context.Context) error {
	untilRelayEnds, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer stop()
		return p.relay.Run(ctx)
	})
	all.Go(func() error { return p.reader.Run(untilRelayEnds) })
	all.Go(func() error { return p.watch.Run(ctx) })
	return all.Wait()
}
