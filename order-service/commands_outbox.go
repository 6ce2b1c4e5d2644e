package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/operate"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
)

// operatorConnections is enough: a command does one thing after the other.
const operatorConnections = 2

// operatorTimeout is for one transaction. Some count or change many events, and somebody
// waits for them who can break them off.
const operatorTimeout = time.Minute

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
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), operatorConnections, postgres.TxTimeout(operatorTimeout))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Ready(ctx, schema); err != nil {
		return fmt.Errorf("the database that DATABASE_URL names is not ready: %w", err)
	}
	return action(ctx, operate.Desk{
		Outbox: outbox.NewOperator(db), Relay: c.relay(),
		Broker: onceConnected(rabbitmq.Config{URL: c.AMQPURL.Reveal(), Name: service + " republish"}, topology, operator.BrokerPatience),
		Out:    os.Stdout, Progress: os.Stderr, By: operator.Name(),
	})
}

// onceConnected lets an operator use a session on which the exchange is there.
func onceConnected(connection rabbitmq.Config, owned rabbitmq.Topology, patience time.Duration) operate.Broker {
	return func(ctx context.Context, use func(context.Context, relay.Broker) error) error {
		return operator.OnceConnected(ctx, connection, patience, func(ctx context.Context, s *rabbitmq.Session) error {
			if err := s.Declare(owned); err != nil {
				return err
			}
			return use(ctx, broker{s})
		})
	}
}
