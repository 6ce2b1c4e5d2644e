package main

import (
	"context"
	"os"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/operate"
)

// operateDeadLetters runs the operators' commands on the dead letters.
var operateDeadLetters = command.WithArguments(service, check, func(args []string) (func(context.Context, config) error, error) {
	action, err := operate.Parse(args, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) error {
		return action(ctx, operate.Desk{
			Broker: c.onceConnected, Queue: deadLetterQueue, Requeue: requeueExchange,
			Out: os.Stdout, Progress: os.Stderr, By: operator.Name(),
		})
	}, nil
})

// onceConnected declares nothing: what is missing, only the service knows how to make.
func (c config) onceConnected(ctx context.Context, use func(context.Context, operate.Session) error) error {
	return operator.OnceConnected(ctx, c.connection("dlq"), operator.BrokerPatience, func(ctx context.Context, s *rabbitmq.Session) error {
		return use(ctx, operate.On(s))
	})
}
