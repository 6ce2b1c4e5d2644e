package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/internal/wakeup"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/order-service/nats/publisher"
)

var schema = postgres.Migrations{Files: migrations.Files, Command: "order-service migrate"}

// spareConnections to the database, beyond one for each worker.
const spareConnections = 2

// serve does what `order-service relay` does, with sessions of NATS.
func serve(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), int32(c.Workers)+spareConnections, postgres.WithoutWaitingForDisk) //nolint:gosec // checked to be small
	if err != nil {
		return err
	}
	defer db.Close()
	registry := telemetry.NewRegistry()
	store := outbox.NewStore(db)
	registry.MustRegister(db.Metrics("relay"), store.Metrics())
	r := relay.New(c.relay(), store, relay.NewMetrics(registry))
	listener := wakeup.NewListener(c.DatabaseURL.Reveal(), r.Wake, registry)

	ready := func(ctx context.Context) error { return db.Ready(ctx, schema) }
	ops := httpserver.Ops(ready, registry, http.NotFoundHandler())
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, func(ctx context.Context) error {
		if db.Wait(ctx, schema) != nil {
			return nil // the process was asked to end before the database came
		}
		defer slog.InfoContext(ctx, "stopped")
		all, ctx := errgroup.WithContext(ctx)
		all.Go(func() error { return store.RunJanitor(ctx, c.Retention) })
		all.Go(func() error { return listener.Run(ctx) })
		all.Go(func() error { return publisher.KeepConnected(ctx, c.connection(), c.session(r)) })
		return all.Wait()
	})
}

// session returns what the relay does on each session.
func (c config) session(r *relay.Relay) func(context.Context, *publisher.Session) error {
	return func(ctx context.Context, s *publisher.Session) error {
		if err := c.requireDurable(ctx, s); err != nil {
			return err
		}
		if err := s.Declare(ctx, c.streams()...); err != nil {
			return err
		}
		slog.InfoContext(ctx, "publishing", "stream", c.streams()[0].Name)
		return r.Run(ctx, s)
	}
}

// requireDurable ends the program if the server may lose messages that it has confirmed, unless a
// setting allows that. Each session is checked: the server may have another configuration by now.
func (c config) requireDurable(ctx context.Context, s *publisher.Session) error {
	err := s.CheckDurable(ctx, c.Monitoring)
	switch {
	case err == nil:
		return nil
	case c.AllowUnsynced:
		slog.WarnContext(ctx, "promise P3 does not hold: the server may lose messages that it has confirmed, when its power fails", "error", err)
		return nil
	case errors.Is(err, publisher.ErrNotDurable):
		return publisher.PermanentError{Err: err}
	default:
		return err
	}
}
