package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"example.com/transactional-outbox/chaos/broker"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/internal/servertest/process"
)

// ground is what all scenarios stand on: the servers and the programs.
type ground struct {
	options
	folder   string
	postgres *servertest.PostgresServer
	rabbitmq *servertest.RabbitMQServer
	broker   broker.Broker
	roles    map[string]servertest.Roles // of each service, in the databases of this scenario
}

const (
	orderService        = "order-service"
	notificationService = "notification-service"
)

// prepare builds the services, starts the servers, and migrates a template of each
// database.
func prepare(ctx context.Context, o options, chosen []scenario) (g *ground, err error) {
	g = &ground{options: o}
	defer func() { //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
		if err != nil {
			g.end()
		}
	}()
	if g.folder, err = os.MkdirTemp("", "chaos-"); err != nil {
		return g, err
	}
	if err := os.Chmod(g.folder, 0o755); err != nil { //nolint:gosec // PostgreSQL is another user when we are root
		return g, err
	}
	progress("building the services of %s, starting PostgreSQL and RabbitMQ in %s", o.Source, g.folder)
	if err := g.buildFor(ctx, chosen); err != nil {
		return g, err
	}
	if err := g.startServers(ctx); err != nil {
		return g, err
	}
	return g, g.makeTemplates(ctx)
}

func (g *ground) startServers(ctx context.Context) (err error) {
	if g.postgres, err = servertest.NewPostgres(filepath.Join(g.folder, "postgres"), process.WithParent); err != nil {
		return err
	}
	if err := g.postgres.Start(ctx); err != nil {
		return err
	}
	if g.rabbitmq, err = servertest.NewRabbitMQ(filepath.Join(g.folder, "rabbitmq"), process.WithParent); err != nil {
		return err
	}
	if err := g.startBroker(ctx); err != nil {
		return err
	}
	g.broker = broker.Broker{URL: g.rabbitmq.URL("/")} // now that its port is certain
	return g.permit(ctx)
}

// permit lets the services do at the broker what they may, and nothing else.
func (g *ground) permit(ctx context.Context) error { return g.rabbitmq.Provision(ctx, g.Source, "/") }

// startBroker lets a queue that could not hand a message on try again soon: by default
// it waits three minutes, which no scenario has.
func (g *ground) startBroker(ctx context.Context) error {
	if err := g.rabbitmq.Start(ctx); err != nil {
		return err
	}
	_, err := g.rabbitmq.Ctl(ctx, "eval", "application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 3000).")
	return err
}

// end stops the servers and removes everything.
func (g *ground) end() {
	var errs []error
	if g.rabbitmq != nil {
		errs = append(errs, g.rabbitmq.Close())
	}
	if g.postgres != nil {
		errs = append(errs, g.postgres.Close())
	}
	errs = append(errs, os.RemoveAll(g.folder))
	if err := errors.Join(errs...); err != nil {
		progress("cleaning up: %v", err)
	}
}

// progress says what is being done, since it takes long.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
