package main

import (
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// What this service owns at the broker, and the one thing that it does not.
const (
	events             = "outbox.events" // order-service's
	queue              = service
	deadLetterExchange = service + ".dlx"
	deadLetterQueue    = service + ".dlq"
)

// topology names every event key: a wildcard would bring events of which this
// service knows nothing. The exchange of the dead letters is a fanout, so that a
// dead letter keeps its routing key, and no other service's can get in.
func topology(deliveryLimit int) rabbitmq.Topology {
	main := rabbitmq.Queue{Name: queue, Arguments: map[string]any{
		"x-delivery-limit":       deliveryLimit,
		"x-dead-letter-exchange": deadLetterExchange,
		"x-dead-letter-strategy": "at-least-once", // the broker's own copy is confirmed, too
		"x-overflow":             "reject-publish",
	}}
	for _, key := range notification.Keys {
		main.Bindings = append(main.Bindings, rabbitmq.Binding{Exchange: events, Key: key})
	}
	return rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: deadLetterExchange, Kind: "fanout"}},
		Queues: []rabbitmq.Queue{
			{Name: deadLetterQueue, Bindings: []rabbitmq.Binding{{Exchange: deadLetterExchange}}},
			main,
		},
	}
}
