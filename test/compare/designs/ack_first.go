package main

import (
	"context"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// ackFirst takes messages that the broker forgets when it has sent them.
//
// Source: autoAck = true, as in the first of RabbitMQ's tutorials, and in many services since.
//
// Right: the simplest and fastest consumer, and no message is delivered twice. Inbox and effect are
// one transaction. But nobody has the message any more when the work on it fails.
func ackFirst(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, true, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		e, err := shop.Read(d)
		if err == nil {
			err = s.Effect(ctx, e, true)
		}
		if err != nil {
			slog.ErrorContext(ctx, "message failed", "error", err)
		}
	})
}
