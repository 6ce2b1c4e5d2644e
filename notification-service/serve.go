package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/stage"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// connections are the connections to the database: those of the consumer, and some for health
// checks and pruning. E-mails need none while they are being sent.
const connections = consumer.Connections + 3

func serve(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), connections)
	if err != nil {
		return err
	}
	defer db.Close()
	emails, err := c.mailer()
	if err != nil {
		return err
	}
	defer emails.Close()
	registry := telemetry.NewRegistry()
	registry.MustRegister(db.Metrics("consumer"), db.OldestTransaction())
	p := assemble(c, db, emails, registry)
	view, closePage, err := p.page(ctx)
	if err != nil {
		return err
	}
	defer closePage()
	registry.MustRegister(view.Metrics())
	ops := httpserver.Ops(p.ready, registry, view)
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, view.During(func(ctx context.Context) error {
		if db.Wait(ctx, migrations.Schema) != nil {
			return nil // shutdown began before the database was ready
		}
		defer slog.InfoContext(ctx, "stopped")
		return p.consume(ctx)
	}))
}

// parts are the parts of this service, wired together.
type parts struct {
	config   config
	db       *postgres.DB
	seen     *inbox.Inbox
	copies   *rabbitmq.Outlet
	effect   *notification.Service
	messages *consumer.Consumer
	// What each connection to the broker waits for.
	consuming, publishing *stage.Stage
}

func assemble(c config, db *postgres.DB, emails mailer.Mailer, registry prometheus.Registerer) parts {
	seen, copies := inbox.New(db, c.InboxRetention), rabbitmq.NewOutlet()
	effect := notification.NewService(
		notification.Config{From: c.MailFrom, DefaultRecipient: c.DefaultRecipient, Retention: c.NotificationRetention},
		db, emails, notification.NewMetrics(registry))
	messages := consumer.New(consumer.Config{
		Queue:              queue,
		Workers:            c.ConsumerWorkers,
		BatchSize:          c.ConsumerBatchSize,
		Prefetch:           c.ConsumerPrefetch,
		DeadLetterExchange: deadLetterExchange,
		RequeueExchange:    requeueExchange,
		RetryExchanges:     retryTiers(c.RetryDelays),
		MaxHold:            maxHold,
		Probes: map[string]func(context.Context) error{
			consumer.Database: db.Ping,
			mailer.MailServer: emails.Probe,
		},
	}, db, seen, effect, copies, consumer.NewMetrics(registry))
	return parts{
		config: c, db: db, seen: seen, copies: copies, effect: effect, messages: messages,
		consuming: stage.New("a session with the broker"), publishing: stage.New("a session with the broker, for copies"),
	}
}

// consume uses two connections to the broker. A memory alarm blocks the one that publishes
// copies, and consuming goes on. Publishing ends after consuming, because the last delivery may
// need a copy.
func (p parts) consume(ctx context.Context) error {
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return p.seen.KeepPruned(ctx) })
	running.Go(func() error { return p.effect.KeepPruned(ctx) })
	running.Go(func() error { return operate.NewLog(p.db.Pool()).Run(ctx, p.config.AuditRetention) })
	running.Go(func() error {
		defer stopPublishing()
		return p.messages.Run(ctx, func(ctx context.Context) error {
			return rabbitmq.KeepConnected(ctx, p.config.connection("consumer"), p.consumeSession)
		})
	})
	running.Go(func() error {
		return rabbitmq.KeepConnected(publishing, p.config.connection("publisher"), p.publishCopies)
	})
	return running.Wait()
}

// maxHold is a third of the broker's consumer timeout, which is 30 minutes.
const maxHold = 10 * time.Minute

func (c config) connection(role string) rabbitmq.Config {
	return rabbitmq.Config{URL: c.AMQPURL.Reveal(), Name: service + " " + role}
}

// consumeSession declares the topology again and again. If somebody deletes a binding or an
// exchange, no connection closes, so nothing else would notice it.
func (p parts) consumeSession(ctx context.Context, s *rabbitmq.Session) error {
	p.consuming.WaitFor("the exchange " + events)
	defer p.consuming.Reset()
	if err := s.WaitForExchange(ctx, events, "topic"); err != nil {
		return err
	}
	declared := p.config.topology()
	if err := s.Declare(declared); err != nil {
		return err
	}
	p.consuming.WaitFor(stage.Nothing)
	slog.InfoContext(ctx, "taking messages", "queue", queue)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.KeepDeclared(ctx, declared) })
	both.Go(func() error { return p.messages.Consume(ctx, queueSource{s}) })
	return both.Wait()
}

func (p parts) publishCopies(ctx context.Context, s *rabbitmq.Session) error {
	if err := s.Declare(p.config.retryTopology()); err != nil {
		return err
	}
	p.publishing.WaitFor(stage.Nothing)
	defer p.publishing.Reset()
	return p.copies.Serve(ctx, s)
}

// queueSource is a session as the interface that the consumer uses.
type queueSource struct{ *rabbitmq.Session }

// Consume takes messages from the service's queue.
func (s queueSource) Consume(prefetch int) (consumer.Deliveries, error) {
	return s.Session.Consume(queue, prefetch)
}
