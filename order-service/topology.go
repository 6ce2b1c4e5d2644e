package main

import "example.com/transactional-outbox/outbox/rabbitmq"

const service = "order-service"

// What this service owns at the broker: one exchange for all events, and one exchange and
// queue for copies of the events that could not be published.
const (
	exchange           = "outbox.events"
	deadLetterExchange = service + ".dlx"
	deadLetterQueue    = service + ".dlq"
)

var topology = rabbitmq.Topology{
	Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}, {Name: deadLetterExchange, Kind: "fanout"}},
	Queues: []rabbitmq.DeclaredQueue{{
		Name:      deadLetterQueue,
		Arguments: map[string]any{"x-delivery-limit": rabbitmq.NoDeliveryLimit},
		Bindings:  []rabbitmq.Binding{{Exchange: deadLetterExchange}},
	}},
}
