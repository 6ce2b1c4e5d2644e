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
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/notification-service/migrations"
)

var schema = postgres.Migrations{Files: migrations.Files, Command: service + " migrate"}

// spareConnections are for what is not a worker: health checks, for one.
const spareConnections = 2

func serve(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), int32(c.ConsumerWorkers)+spareConnections) //nolint:gosec // checked to be small
	if err != nil {
		return err
	}
	defer db.Close()
	mailer, err := c.mailer()
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return db.Ready(ctx, schema) }
	ops := httpserver.Ops(ready, telemetry.NewRegistry())
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, func(ctx context.Context) error {
		if db.Wait(ctx, schema) != nil {
			return nil // asked to end before the database came
		}
		defer slog.InfoContext(ctx, "stopped")
		effect := notification.NewService(notification.Config{From: c.MailFrom, DefaultRecipient: c.DefaultRecipient}, db, mailer)
		return consume(ctx, c, db, effect)
	})
}

// consume uses two connections: a memory alarm blocks the one that publishes dead
// letters, and consuming goes on. Publishing ends after consuming, so that it is
// there for the last delivery.
func consume(ctx context.Context, c config, db *postgres.DB, effect *notification.Service) error {
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()
	deadLetters := rabbitmq.NewOutlet()
	messages := consumer.New(consumer.Config{
		Workers: c.ConsumerWorkers, DeadLetterExchange: deadLetterExchange,
	}, db, effect, deadLetters)

	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer stopPublishing()
		return rabbitmq.Keep(ctx, c.connection("consumer"), func(ctx context.Context, s *rabbitmq.Session) error {
			return takeMessages(ctx, c, s, messages)
		})
	})
	parts.Go(func() error {
		return rabbitmq.Keep(publishing, c.connection("publisher"), deadLetters.Serve)
	})
	return parts.Wait()
}

func (c config) connection(role string) rabbitmq.Config {
	return rabbitmq.Config{URL: c.AMQPURL.Reveal(), Name: service + " " + role}
}

func takeMessages(ctx context.Context, c config, s *rabbitmq.Session, messages *consumer.Consumer[notification.Event]) error {
	if err := s.WaitForExchange(ctx, events, "topic"); err != nil {
		return err
	}
	if err := s.Declare(topology(c.DeliveryLimit)); err != nil {
		return err
	}
	deliveries, err := s.Consume(queue, c.ConsumerPrefetch)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "taking messages", "queue", queue)
	return messages.Run(ctx, deliveries)
}
