package main

import (
	"context"
	"fmt"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// provisionBroker creates a user for each service at a private broker. It does not change a broker
// that it did not start.
func (s *stack) provisionBroker(ctx context.Context) error {
	folder, private := s.state.Private[rabbitMQ.name]
	if !private {
		return nil
	}
	broker, err := servers.NewRabbitMQ(folder, process.Detached)
	if err != nil {
		return err
	}
	if err := broker.CreateVhost(ctx, s.root, rabbitMQ.home); err != nil {
		return fmt.Errorf("create the services' users at RabbitMQ: %w", err)
	}
	return nil
}

// brokerURL returns the URL of the broker for one service.
func (s *stack) brokerURL(svc service, broker string) string {
	if _, private := s.state.Private[rabbitMQ.name]; private {
		return servers.BrokerURLFor(svc.name, broker)
	}
	return broker
}
