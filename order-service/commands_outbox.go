package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/operate"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
)

// operatorConnections is enough: a command does one thing after the other.
const operatorConnections = 2

// brokerPatience is how long a command waits for a session, where a service would
// wait for ever.
const brokerPatience = 30 * time.Second

// operateOutbox runs the operators' commands on the outbox.
var operateOutbox = command.WithArguments(service, check, func(args []string) (func(context.Context, config) error, error) {
	action, err := operate.Parse(args, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) error { return atDesk(ctx, c, action) }, nil
})

// atDesk opens what an action needs. Unlike a service it does not wait for the
// database: somebody waits for it.
func atDesk(ctx context.Context, c config, action operate.Action) error {
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), operatorConnections)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Ready(ctx, schema); err != nil {
		return fmt.Errorf("the database that DATABASE_URL names is not ready: %w", err)
	}
	return action(ctx, operate.Desk{
		Outbox: outbox.NewOperator(db), Relay: c.relay(),
		Broker: onceConnected(rabbitmq.Config{URL: c.AMQPURL.Reveal(), Name: service + " republish"}, topology, brokerPatience),
		Out:    os.Stdout, Progress: os.Stderr, By: operator(),
	})
}

// onceConnected lets an operator use a single session: when it breaks, somebody
// should know, and decide whether to go on.
func onceConnected(connection rabbitmq.Config, owned rabbitmq.Topology, patience time.Duration) operate.Broker {
	return func(ctx context.Context, use func(context.Context, relay.Broker) error) (err error) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		tooLate := fmt.Errorf("the broker that AMQP_URL names gave no session within %s; the log above says why", patience)
		waiting := time.AfterFunc(patience, func() { end(tooLate) })
		defer waiting.Stop()

		used := false
		kept := rabbitmq.Keep(ctx, connection, func(ctx context.Context, s *rabbitmq.Session) error {
			if !waiting.Stop() {
				return nil
			}
			defer end(nil)
			if used, err = true, s.Declare(owned); err == nil {
				err = use(ctx, broker{s})
			}
			return err
		})
		if !used {
			return errors.Join(kept, context.Cause(ctx))
		}
		return err
	}
}

// operator is who runs this command, for the log.
func operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid()) // a container knows no names
}
