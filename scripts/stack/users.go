package main

import (
	"context"
	"fmt"

	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/internal/servertest/process"
)

// provisionBroker gives each service a user of its own at a private broker. One that was
// only found is not ours to set up.
func (s *stack) provisionBroker(ctx context.Context) error {
	folder, private := s.state.Private[rabbitMQ.name]
	if !private {
		return nil
	}
	broker, err := servertest.NewRabbitMQ(folder, process.Detached)
	if err != nil {
		return err
	}
	if err := broker.Provision(ctx, s.root, rabbitMQ.home); err != nil {
		return fmt.Errorf("give the services their users at RabbitMQ: %w", err)
	}
	return nil
}

// brokerOf is the way to the broker for one service.
func (s *stack) brokerOf(svc service, broker string) string {
	if _, private := s.state.Private[rabbitMQ.name]; private {
		return servertest.As(svc.name, broker)
	}
	return broker
}
