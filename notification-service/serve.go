package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/operatorpage"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/notification-service/internal/effect"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/page"
	"example.com/transactional-outbox/outbox/prom"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// spareConnections are those to the database beyond one for each relay worker: for the worker of
// paused domains, leases, the consumer, what prunes, health checks and scrapes.
const spareConnections = 7

func serve(ctx context.Context, c config) error {
	slog.InfoContext(ctx, "starting", settings.Attributes(c)...)
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), int32(c.RelayWorkers)+spareConnections, postgres.Fresh(settings.Fresh("DATABASE_URL"))) //nolint:gosec // checked to be small
	if err != nil {
		return err
	}
	defer db.Close()
	registry := telemetry.NewRegistry()
	registry.MustRegister(db.Metrics(service), db.OldestTransaction())
	p, err := assemble(c, db, registry)
	if err != nil {
		return err
	}
	view, closePage, err := operatorpage.Open(ctx, p.page(), c.Page, c.Shared, registry)
	if err != nil {
		return err
	}
	defer closePage()
	ops := httpserver.Ops(p.ready(), registry, view)
	return httpserver.ServeDuring(ctx, "OPS_ADDR", c.OpsAddr, ops, func(ctx context.Context) error {
		if db.Wait(ctx, migrations.Schema) != nil {
			return nil // shutdown began before the database was ready
		}
		defer slog.InfoContext(ctx, "stopped")
		return p.run(ctx)
	})
}

// parts are the parts of this service, wired together.
type parts struct {
	config    config
	db        *postgres.DB
	consumer  *rabbitmq.Consumer // of order events
	relay     *outbox.Relay      // of e-mails
	decisions *operate.Log
}

func assemble(c config, db *postgres.DB, registry prometheus.Registerer) (parts, error) {
	emails, err := mailer.New(c.mail(c.MailFrom))
	if err != nil {
		return parts{}, err
	}
	relay, err := outbox.NewRelay(db.Pool(), emails, c.relay())
	if err != nil {
		return parts{}, err
	}
	handler := effect.NewHandler(db.Pool(), effect.Config{
		Consumer: service, InboxRetention: c.InboxRetention, DefaultRecipient: c.DefaultRecipient, Wake: relay.Wake,
	}, effect.NewMetrics(registry))
	consumer, err := rabbitmq.NewConsumer(c.AMQPURL.Reveal(), c.queue(), handler)
	if err != nil {
		return parts{}, err
	}
	registry.MustRegister(prom.Collector(relay, consumer))
	return parts{c, db, consumer, relay, operate.NewLog(db.Pool())}, nil
}

// run ends the consumer first, so that the relay can begin what the last batch has appended. The relay
// does not wait longer than the consumer may finish: closing a session with a silent broker takes
// more time.
func (p parts) run(ctx context.Context) error {
	untilConsumerEnds, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(consumerShutdown, stop) })()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return p.decisions.Run(ctx, p.config.AuditRetention) })
	all.Go(func() error { return p.relay.Run(untilConsumerEnds) })
	all.Go(func() error {
		defer stop()
		return p.consumer.Run(ctx)
	})
	return all.Wait()
}

// ready are the checks of a service that takes messages. The mail server is not part of it: e-mails
// wait for it in the database, and a rollout does not.
func (p parts) ready() []httpserver.Check {
	return []httpserver.Check{
		{Name: "the consumer of order events", Ready: func(context.Context) error { return p.consumer.Health() }},
		{Name: "the database", Ready: func(ctx context.Context) error { return p.db.Ready(ctx, migrations.Schema) }},
	}
}

// page is what operators see of the outbox: the e-mails. Dead letters are in the broker.
func (p parts) page() page.Config {
	return page.Config{
		Name: service, Event: "e-mail", Topic: "domain", Destination: "the mail server", Aggregate: "order", Health: p.relay.Health,
		Runbook: page.Runbook{
			Relay: "RelayNotUp", Database: "DatabaseAway", Paused: "EmailDomainPaused", Failed: "EmailsFailed", Late: "OutboxOldestEventTooOld",
		},
		Problems: p.problems,
	}
}

func (p parts) problems(ctx context.Context) (problems []page.Problem) {
	if err := p.consumer.Health(); err != nil {
		chapter := "ConsumerNotUp"
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the page's may have ended
		defer cancel()
		if p.db.Ping(ctx) != nil {
			chapter = "DatabaseAway"
		}
		problems = append(problems, page.Problem{
			Text: "No order events are consumed: " + err.Error() + ".", Runbook: operatorpage.Runbook(p.config.Page, chapter),
		})
	}
	if n := p.consumer.DeadLetters(); n > 0 {
		problems = append(problems, page.Problem{
			Text: fmt.Sprintf("Order events that could not be handled are dead letters: %d.", n), Command: service + " dlq list",
			Runbook: operatorpage.Runbook(p.config.Page, "DeadLettersWait"),
		})
	}
	return problems
}
