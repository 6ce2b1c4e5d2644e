// Command notification-service sends customers e-mails about their orders. It consumes order events
// and appends an e-mail for each to its own outbox, in one transaction. A relay sends the e-mails.
package main

import (
	"context"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/notification-service/migrations"
)

const service = "notification-service"

func main() { command.Main(service, commands()...) }

func commands() []command.Command {
	return []command.Command{
		{Name: "serve", Does: "consume events and send e-mails (the default)", Run: command.Configured(service, checkAll, serve)},
		{Name: "migrate", Does: "bring the database's schema up to date", Run: configured(migrate)},
		{Name: "healthcheck", Does: "exit 0 if the service on OPS_ADDR is ready", Run: configured(healthcheck)},
		{Name: "outbox", Does: "list, show, replay and discard e-mails, and pause domains", Run: operateOutbox},
		{Name: "dlq", Does: "list, show, replay and discard dead letters", Run: operateDeadLetters},
	}
}

func configured(run func(context.Context, config) error) func(context.Context, []string) error {
	return command.Configured(service, check, run)
}

func migrate(ctx context.Context, c config) error {
	return migrations.Schema.Migrate(ctx, c.DatabaseURL.Reveal())
}

func healthcheck(ctx context.Context, c config) error {
	return httpserver.CheckHealth(ctx, c.OpsAddr)
}
