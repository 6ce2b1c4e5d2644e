package rabbitmq

import (
	"strings"
	"time"
)

// Topology is what the consumer of q declares: the queue, its retry queues, and its dead letters.
// All of it belongs to this queue. So no retry and no dead letter of it reaches another service.
//
//	q.Exchange ─► NAME ─► handler
//	               ▲  └─► NAME.retry.30s (exchange) ─► NAME.retry.30s (queue) ─┐ after 30 s
//	               │  └─► NAME.dlx (exchange) ─► NAME.dlq (queue)              │
//	               └───── NAME.requeue (exchange) ◄────────────────────────────┘
func (q Queue) Topology() Topology {
	q = q.withDefaults()
	t := q.copyTopology()
	t.Queues = append(t.Queues, q.mainQueue())
	return t
}

// DeadLetterQueue is the name of the queue of dead letters.
func (q Queue) DeadLetterQueue() string { return q.Name + ".dlq" }

func (q Queue) deadLetterExchange() string { return q.Name + ".dlx" }
func (q Queue) requeueExchange() string    { return q.Name + ".requeue" }

// copyTopology is where copies go. Each exchange is a fanout, bound only to queues of this queue.
// So a message keeps its routing key.
func (q Queue) copyTopology() Topology {
	t := Topology{
		Exchanges: []Exchange{{Name: q.deadLetterExchange(), Kind: "fanout"}, {Name: q.requeueExchange(), Kind: "fanout"}},
		Queues: []DeclaredQueue{{
			Name:      q.DeadLetterQueue(),
			Arguments: map[string]any{"x-delivery-limit": NoDeliveryLimit},
			Bindings:  []Binding{{Exchange: q.deadLetterExchange()}},
		}},
	}
	for _, delay := range q.Retry {
		t.Exchanges = append(t.Exchanges, Exchange{Name: q.retryExchange(delay), Kind: "fanout"})
		t.Queues = append(t.Queues, q.retryQueue(delay))
	}
	return t
}

func (q Queue) mainQueue() DeclaredQueue {
	main := DeclaredQueue{
		Name:      q.Name,
		Arguments: deadLettering(q.deadLetterExchange()),
		Bindings:  []Binding{{Exchange: q.requeueExchange()}},
	}
	main.Arguments["x-delivery-limit"] = q.DeliveryLimit
	for _, topic := range q.Topics {
		main.Bindings = append(main.Bindings, Binding{Exchange: q.Exchange, Key: topic})
	}
	return main
}

// retryQueue holds messages for one delay, and then returns them to the main queue. Each delay
// has its own queue, because messages expire only at the head of a queue.
func (q Queue) retryQueue(delay time.Duration) DeclaredQueue {
	retry := DeclaredQueue{
		Name:      q.retryExchange(delay),
		Arguments: deadLettering(q.requeueExchange()),
		Bindings:  []Binding{{Exchange: q.retryExchange(delay)}},
	}
	retry.Arguments["x-message-ttl"] = delay.Milliseconds()
	return retry
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

// retryExchange is the name of the exchange and of the queue of a delay. Another delay makes
// another queue, and the old queue still returns its messages.
func (q Queue) retryExchange(delay time.Duration) string {
	short := strings.Replace(delay.String(), "m0s", "m", 1) // 1m0s, 1h0m0s
	short = strings.Replace(short, "h0m", "h", 1)
	return q.Name + ".retry." + short
}
