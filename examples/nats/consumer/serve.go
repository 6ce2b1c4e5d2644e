package main

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/notification-service/internal/effect"
	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox"
)

// config holds the settings, which come from environment variables.
type config struct {
	DatabaseURL settings.Secret `env:"DATABASE_URL,required,notEmpty" help:"the database of notification-service"`
	NATSURL     settings.Secret `env:"NATS_URL,required,notEmpty" help:"nats://user:password@host:port, several with commas between them"`
	Credentials string          `env:"NATS_CREDENTIALS" help:"path of a .creds file"`
	Replicas    int             `env:"NATS_REPLICAS" envDefault:"1" help:"of the stream for dead letters"`
	LogLevel    slog.Level      `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn, error"`
	OpsAddr     string          `env:"OPS_ADDR" envDefault:"127.0.0.1:4111" help:"/livez, /readyz, /metrics"`
	AckWait     time.Duration   `env:"NATS_ACK_WAIT" envDefault:"30s" help:"after so long without an acknowledgement, a message is delivered again"`
	// InboxRetention is also how long the relay's stream keeps messages.
	InboxRetention time.Duration `env:"INBOX_RETENTION" envDefault:"720h" help:"how long message ids are remembered"`
}

func check(c config) []error {
	return slices.Concat(
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("NATS_REPLICAS", c.Replicas, 1),
		settings.AtLeast("NATS_ACK_WAIT", c.AckWait, 3*time.Second),
		settings.AtLeast("INBOX_RETENTION", c.InboxRetention, time.Hour),
	)
}

var schema = migrations.Schema

// connections to the database: for the message in hand, the relay's workers, pruning and health.
const connections = 8

func serve(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), connections)
	if err != nil {
		return err
	}
	defer db.Close()
	registry := telemetry.NewRegistry()
	registry.MustRegister(db.Metrics("consumer"))
	emails, err := mailer.New(mailer.Config{URL: "log:", From: "shop@example.com", Connections: 1, Compose: email.Compose})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(db.Pool(), emails, outbox.RelayConfig{
		AppID: service, SettleAfter: time.Microsecond, DurableMarks: true,
	})
	if err != nil {
		return err
	}
	h := &handler{limit: c.AckWait * 2 / 3, effect: effect.NewHandler(db.Pool(), effect.Config{
		Consumer: durable, InboxRetention: c.InboxRetention, DefaultRecipient: "guest@example.com", Wake: relay.Wake,
	}, effect.NewMetrics(registry))}

	ops := httpserver.Ops(func(ctx context.Context) error { return db.Ready(ctx, schema) }, registry, http.NotFoundHandler())
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, func(ctx context.Context) error {
		if db.Wait(ctx, schema) != nil {
			return nil // the process was asked to end before the database came
		}
		defer slog.InfoContext(ctx, "stopped")
		all, ctx := errgroup.WithContext(ctx)
		all.Go(func() error { return h.effect.Run(ctx) }) // prunes the inbox
		all.Go(func() error { return relay.Run(ctx) })
		all.Go(func() error { return consume(ctx, c, h) })
		return all.Wait()
	})
}
