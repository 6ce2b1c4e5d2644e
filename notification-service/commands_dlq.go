package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/postgres"
	dlqcli "example.com/transactional-outbox/notification-service/internal/cli"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// operateDeadLetters runs the operators' commands on the dead letters.
var operateDeadLetters = command.WithArguments(service, checkWithBroker, func(args []string) (func(context.Context, config) error, error) {
	action, err := dlqcli.Parse(args, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) error {
		return action(ctx, dlqcli.Dependencies{
			Queue: c.deadLetters(cli.SessionTimeout), Database: c.recordDecisions,
			Out: os.Stdout, Progress: os.Stderr, By: cli.Name(),
		})
	}, nil
})

// deadLetters is the queue of the dead letters. It waits for a session at most for timeout. It
// declares nothing: only the service declares its topology.
func (c config) deadLetters(timeout time.Duration) deadletter.Queue {
	connect := func(ctx context.Context, use func(context.Context, deadletter.Session) error) error {
		return cli.WithSession(ctx, c.connection("dlq"), timeout, func(ctx context.Context, s *rabbitmq.Session) error {
			return use(ctx, deadletter.Adapt(s))
		})
	}
	return deadletter.Queue{Name: deadLetterQueue, Requeue: requeueExchange, Connect: connect}
}

// decisionTimeout is how long each statement of a record may take. Meanwhile messages are held.
const decisionTimeout = 5 * time.Second

// recordDecisions calls use with the database, if it answers and has the right schema.
func (c config) recordDecisions(ctx context.Context, use func(deadletter.Recorder) error) error {
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
