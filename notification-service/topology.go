package main

import (
	"strings"
	"time"

	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// The names at the broker. This service owns all of them but events.
const (
	events             = "outbox.events" // order-service's
	queue              = service
	requeueExchange    = service + ".requeue"
	deadLetterExchange = service + ".dlx"
	deadLetterQueue    = service + ".dlq"
)

// topology is everything that this service declares.
func (c config) topology() rabbitmq.Topology {
	t := c.retryTopology()
	t.Queues = append(t.Queues, mainQueue(c.DeliveryLimit))
	return t
}

// retryTopology is where copies go. Each exchange is a fanout, bound only to queues of this
// service. So a message keeps its routing key, and no other service sees it.
func (c config) retryTopology() rabbitmq.Topology {
	t := rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: deadLetterExchange, Kind: "fanout"}, {Name: requeueExchange, Kind: "fanout"}},
		Queues:    []rabbitmq.DeclaredQueue{deadLetters()},
	}
	for _, delay := range c.RetryDelays {
		t.Exchanges = append(t.Exchanges, rabbitmq.Exchange{Name: retryTier(delay), Kind: "fanout"})
		t.Queues = append(t.Queues, retryQueue(delay))
	}
	return t
}

// mainQueue binds every event key. A wildcard would bring events that this service does not
// know.
func mainQueue(deliveryLimit int) rabbitmq.DeclaredQueue {
	q := rabbitmq.DeclaredQueue{
		Name:      queue,
		Arguments: deadLettering(deadLetterExchange),
		Bindings:  []rabbitmq.Binding{{Exchange: requeueExchange}},
	}
	q.Arguments["x-delivery-limit"] = deliveryLimit
	for _, key := range notification.EventKeys {
		q.Bindings = append(q.Bindings, rabbitmq.Binding{Exchange: events, Key: key})
	}
	return q
}

// retryQueue holds messages for one delay, and then returns them to the main queue. Each delay
// has its own queue, because messages expire only at the head of a queue.
func retryQueue(delay time.Duration) rabbitmq.DeclaredQueue {
	q := rabbitmq.DeclaredQueue{
		Name:      retryTier(delay),
		Arguments: deadLettering(requeueExchange),
		Bindings:  []rabbitmq.Binding{{Exchange: retryTier(delay)}},
	}
	q.Arguments["x-message-ttl"] = delay.Milliseconds()
	return q
}

func deadLetters() rabbitmq.DeclaredQueue {
	return rabbitmq.DeclaredQueue{
		Name:      deadLetterQueue,
		Arguments: map[string]any{"x-delivery-limit": rabbitmq.NoDeliveryLimit},
		Bindings:  []rabbitmq.Binding{{Exchange: deadLetterExchange}},
	}
}

// deadLettering makes the broker's own dead-lettering as safe as a confirmed publish. A message
// stays in its queue until the target queues have it. It needs reject-publish, because a queue
// that drops messages from its head cannot keep them.
// https://www.rabbitmq.com/docs/quorum-queues#dead-lettering
func deadLettering(exchange string) map[string]any {
	return map[string]any{
		"x-dead-letter-exchange": exchange,
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             "reject-publish",
	}
}

// retryTier is the name of the exchange and of the queue of a delay. Another delay makes another
// queue, and the old queue still returns its messages.
func retryTier(delay time.Duration) string {
	short := strings.Replace(delay.String(), "m0s", "m", 1) // 1m0s, 1h0m0s
	short = strings.Replace(short, "h0m", "h", 1)
	return service + ".retry." + short
}

func retryTiers(delays []time.Duration) []string {
	tiers := make([]string, 0, len(delays))
	for _, delay := range delays {
		tiers = append(tiers, retryTier(delay))
	}
	return tiers
}
