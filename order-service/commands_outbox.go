package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/postgres"
	outboxcli "example.com/transactional-outbox/order-service/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// operatorConnections is small, because a command runs one statement at a time.
const operatorConnections = 2

// outboxCommands are the operators' commands on the outbox.
var outboxCommands = command.WithArguments(service, check, func(args []string) (func(context.Context, config) error, error) {
	action, err := outboxcli.Parse(args, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) error { return runAction(ctx, c, action) }, nil
})

// runAction opens what an action needs, and runs it. Unlike a service it does not wait for
// the database, because an operator waits for the answer.
func runAction(ctx context.Context, c config, action outboxcli.Action) error {
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), operatorConnections)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Ready(ctx, schema); err != nil {
		return fmt.Errorf("the database that DATABASE_URL names is not ready: %w", err)
	}
	return action(ctx, outboxcli.Dependencies{
		Outbox: operate.New(db.Pool()),
		Broker: c.republishBroker(), AppID: service, ConfirmTimeout: c.RelayConfirmTimeout,
		Out: os.Stdout, Progress: os.Stderr, By: cli.Name(),
	})
}

// republishBroker needs AMQP_URL only when it is used: the other actions have no broker.
func (c config) republishBroker() outboxcli.Broker {
	if errs := c.CheckBroker(); len(errs) > 0 {
		return func(context.Context, func(context.Context, publish.Session) error) error { return errors.Join(errs...) }
	}
	broker := c.broker(nil)
	broker.ConnectionName = service + " republish"
	return once(broker, cli.SessionTimeout)
}

// once returns a broker that runs its function on one session.
func once(broker *rabbitmq.Broker, patience time.Duration) outboxcli.Broker {
	return func(ctx context.Context, use func(context.Context, publish.Session) error) error {
		return cli.OnSession(ctx, patience, broker.KeepConnected, use)
	}
}
