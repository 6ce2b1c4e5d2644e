package main

import "example.com/transactional-outbox/outbox/rabbitmq"

// The names and the topology are those of order-service. They are repeated here, because a main
// package cannot be imported.
const (
	service            = "order-service"
	exchange           = "outbox.events"
	deadLetterExchange = service + ".dlx"
)

var topology = rabbitmq.Topology{
	Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}, {Name: deadLetterExchange, Kind: "fanout"}},
	Queues: []rabbitmq.DeclaredQueue{{
		Name:      service + ".dlq",
		Arguments: map[string]any{"x-delivery-limit": rabbitmq.NoDeliveryLimit},
		Bindings:  []rabbitmq.Binding{{Exchange: deadLetterExchange}},
	}},
}
