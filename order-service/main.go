// Command order-service is an HTTP API that commits each order with its event, and a relay
// that publishes the events.
package main

import (
	"context"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/httpserver"
)

func main() { command.Main(service, commands()...) }

func commands() []command.Command {
	return []command.Command{
		{Name: "serve", Does: "run the API and the relay (the default)", Run: withBroker(serve)},
		{Name: "api", Does: "run the API alone", Run: configured(serveAPI)},
		{Name: "relay", Does: "run the relay alone", Run: withBroker(serveRelay)},
		{Name: "migrate", Does: "bring the database's schema up to date", Run: configured(migrate)},
		{Name: "healthcheck", Does: "exit 0 if the service on OPS_ADDR is ready", Run: configured(healthcheck)},
		{Name: "outbox", Does: "list, show, replay, discard and republish events, and pause topics", Run: operateOutbox},
	}
}

func configured(run func(context.Context, config) error) func(context.Context, []string) error {
	return command.Configured(service, check, run)
}

func withBroker(run func(context.Context, config) error) func(context.Context, []string) error {
	return command.Configured(service, checkWithBroker, run)
}

func migrate(ctx context.Context, c config) error {
	return schema.Migrate(ctx, c.DatabaseURL.Reveal())
}

func healthcheck(ctx context.Context, c config) error {
	return httpserver.CheckHealth(ctx, c.OpsAddr)
}
