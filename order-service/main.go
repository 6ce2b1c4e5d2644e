// Command order-service is an HTTP API that commits each order with its event, and a relay
// that publishes the events.
package main

import (
	"context"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/page"
)

func main() {
	command.Main(service,
		command.Command{Name: "serve", Does: "run the API and the relay (the default)", Run: configured(serve)},
		command.Command{Name: "api", Does: "run the API alone", Run: configured(serveAPI)},
		command.Command{Name: "relay", Does: "run the relay alone", Run: configured(serveRelay)},
		command.Command{Name: "migrate", Does: "bring the database's schema up to date", Run: configured(migrate)},
		command.Command{Name: "healthcheck", Does: "exit 0 if the service on OPS_ADDR is ready", Run: configured(healthcheck)},
		command.Command{Name: "outbox", Does: "list, show, replay, discard and republish events", Run: outboxCommands},
		page.UserCommand(service),
	)
}

func configured(run func(context.Context, config) error) func(context.Context, []string) error {
	return command.Configured(service, check, run)
}

func migrate(ctx context.Context, c config) error {
	return schema.Migrate(ctx, c.DatabaseURL.Reveal())
}

func healthcheck(ctx context.Context, c config) error {
	return httpserver.CheckHealth(ctx, c.OpsAddr)
}
