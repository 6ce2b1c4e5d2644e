package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// operateDeadLetters runs the operators' commands on the dead letters.
var operateDeadLetters = command.WithArguments(service, checkWithBroker, func(args []string) (func(context.Context, config) error, error) {
	action, err := dlq.Parse(service, args, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) error {
		return action(ctx, dlq.Dependencies{
			Queue: consumerQueue.DeadLetterQueue(), Open: c.deadLetters(), Database: c.recordDecisions,
			Out: os.Stdout, Progress: os.Stderr, By: cli.Name(),
		})
	}, nil
})

// consumerQueue is the consumer's queue, for those who read its dead letters: they need only its
// name.
var consumerQueue = rabbitmq.Queue{Name: service}

func (c config) deadLetters() dlq.Open {
	return dlq.OpenQueue(rabbitmq.Config{URL: c.AMQPURL.Reveal(), Name: service + " dlq"}, consumerQueue, cli.SessionTimeout)
}

// decisionTimeout is how long the wait for the database may take, and each statement of a record.
// Meanwhile the command holds messages.
const decisionTimeout = 5 * time.Second

// recordDecisions calls use with the database, if it answers and has the right schema.
func (c config) recordDecisions(ctx context.Context, use func(dlq.Recorder) error) error {
	db, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), 1, postgres.StatementTimeout(decisionTimeout))
	if err != nil {
		return err
	}
	defer db.Close()
	ready, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	if err := db.Ready(ready, migrations.Schema); err != nil {
		return fmt.Errorf("each change is recorded in the database first, and the one that DATABASE_URL names is not ready: %w; nothing was changed", err)
	}
	return use(operate.NewLog(db.Pool()))
}
