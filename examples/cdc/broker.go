package main

import (
	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/internal/rabbitmq"
)

// The names and the topology are those of order-service. They are repeated here, because a main
// package cannot be imported. RabbitMQ refuses a declaration that differs from an existing one.
const (
	service            = "order-service"
	exchange           = "outbox.events"
	deadLetterExchange = service + ".dlx"
)

var topology = rabbitmq.Topology{
	Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}, {Name: deadLetterExchange, Kind: "fanout"}},
	Queues: []rabbitmq.Queue{{
		Name:      service + ".dlq",
		Arguments: map[string]any{"x-delivery-limit": rabbitmq.NoDeliveryLimit},
		Bindings:  []rabbitmq.Binding{{Exchange: deadLetterExchange}},
	}},
}

// broker adapts a session to the relay's interface.
type broker struct{ *rabbitmq.Session }

// NewPublisher opens a channel.
func (b broker) NewPublisher(window int) (publish.Publisher, error) {
	return b.NewEventPublisher(window)
}
