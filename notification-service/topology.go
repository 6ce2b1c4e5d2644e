package main

import (
	"strings"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// What this service owns at the broker, and the one thing that it does not.
const (
	events             = "outbox.events" // order-service's
	queue              = service
	requeueExchange    = service + ".requeue"
	deadLetterExchange = service + ".dlx"
	deadLetterQueue    = service + ".dlq"
)

// topology is all of it.
func (c config) topology() rabbitmq.Topology {
	t := c.wayBack()
	t.Queues = append(t.Queues, mainQueue(c.DeliveryLimit))
	return t
}

// wayBack is where messages wait that failed. Each exchange is a fanout to which only
// this service's queues are bound: so a message keeps its routing key on each hop, and
// no other service ever sees it.
func (c config) wayBack() rabbitmq.Topology {
	t := rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: deadLetterExchange, Kind: "fanout"}, {Name: requeueExchange, Kind: "fanout"}},
		Queues:    []rabbitmq.Queue{deadLetters()},
	}
	for _, delay := range c.RetryDelays {
		t.Exchanges = append(t.Exchanges, rabbitmq.Exchange{Name: retryTier(delay), Kind: "fanout"})
		t.Queues = append(t.Queues, retryQueue(delay))
	}
	return t
}

// mainQueue names every event key: a wildcard would bring events of which this
// service knows nothing.
func mainQueue(deliveryLimit int) rabbitmq.Queue {
	q := rabbitmq.Queue{
		Name:      queue,
		Arguments: deadLettering(deadLetterExchange),
		Bindings:  []rabbitmq.Binding{{Exchange: requeueExchange}},
	}
	q.Arguments["x-delivery-limit"] = deliveryLimit
	for _, key := range notification.Keys {
		q.Bindings = append(q.Bindings, rabbitmq.Binding{Exchange: events, Key: key})
	}
	return q
}

// retryQueue holds messages for one delay, and then gives them back. One queue for
// each delay, because messages expire only at the head of their queue.
func retryQueue(delay time.Duration) rabbitmq.Queue {
	q := rabbitmq.Queue{
		Name:      retryTier(delay),
		Arguments: deadLettering(requeueExchange),
		Bindings:  []rabbitmq.Binding{{Exchange: retryTier(delay)}},
	}
	q.Arguments["x-message-ttl"] = delay.Milliseconds()
	return q
}

func deadLetters() rabbitmq.Queue {
	return rabbitmq.Queue{
		Name:      deadLetterQueue,
		Arguments: map[string]any{"x-delivery-limit": rabbitmq.NoDeliveryLimit},
		Bindings:  []rabbitmq.Binding{{Exchange: deadLetterExchange}},
	}
}

// deadLettering makes the broker's own hop as safe as a confirmed publish: a message
// stays where it is until the queues behind the exchange have it. It needs
// reject-publish: a queue that drops from its head has nothing to keep it in.
// https://www.rabbitmq.com/docs/quorum-queues#dead-lettering
func deadLettering(exchange string) map[string]any {
	return map[string]any{
		"x-dead-letter-exchange": exchange,
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             "reject-publish",
	}
}

// retryTier is the name of the exchange and of the queue of a delay: with another
// delay come other queues, and the old ones still give back what they hold.
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
