// Command notification-service sends customers e-mails about their orders. It consumes order
// events. Each event has its effect once, even if it is delivered more often.
package main

import (
	"context"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/notification-service/migrations"
)

const service = "notification-service"

func main() { command.Main(service, commands()...) }

func commands() []command.Command {
	return []command.Command{
		{Name: "serve", Does: "consume events and send e-mails (the default)", Run: withBroker(serve)},
		{Name: "migrate", Does: "bring the database's schema up to date", Run: configured(migrate)},
		{Name: "healthcheck", Does: "exit 0 if the service on OPS_ADDR is ready", Run: configured(healthcheck)},
		{Name: "dlq", Does: "list, show, replay and discard dead letters", Run: operateDeadLetters},
		page.UserCommand(service),
	}
}

func configured(run func(context.Context, config) error) func(context.Context, []string) error {
	return command.Configured(service, check, run)
}

func withBroker(run func(context.Context, config) error) func(context.Context, []string) error {
	return command.Configured(service, checkWithBroker, run)
}

func migrate(ctx context.Context, c config) error {
	return migrations.Schema.Migrate(ctx, c.DatabaseURL.Reveal())
}

func healthcheck(ctx context.Context, c config) error {
	return httpserver.CheckHealth(ctx, c.OpsAddr)
}
