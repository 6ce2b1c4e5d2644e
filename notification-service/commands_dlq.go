package main

import (
	"context"
	"os"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/rabbitmq"
	dlqcli "example.com/transactional-outbox/notification-service/internal/cli"
)

// operateDeadLetters runs the operators' commands on the dead letters.
var operateDeadLetters = command.WithArguments(service, check, func(args []string) (func(context.Context, config) error, error) {
	action, err := dlqcli.Parse(args, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) error {
		return action(ctx, dlqcli.Dependencies{
			Broker: c.onceConnected, Queue: deadLetterQueue, Requeue: requeueExchange,
			Out: os.Stdout, Progress: os.Stderr, By: cli.Name(),
		})
	}, nil
})

// onceConnected declares no queue: only the service declares its topology.
func (c config) onceConnected(ctx context.Context, use func(context.Context, dlqcli.Session) error) error {
	return cli.WithSession(ctx, c.connection("dlq"), cli.SessionTimeout, func(ctx context.Context, s *rabbitmq.Session) error {
		return use(ctx, dlqcli.Adapt(s))
	})
}
