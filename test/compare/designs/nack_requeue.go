package main

import (
	"context"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// nackRequeue returns a failed message to the queue at once.
//
// Source: basic.nack with requeue = true, which is the default of several consumer libraries.
//
// Right: nothing is lost, and after an outage it goes on by itself. Inbox and effect are one
// transaction. But a message that never succeeds comes again at once, for ever, and costs time of
// the consumer and of the broker.
func nackRequeue(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, false, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		e, err := shop.Read(d)
		if err == nil {
			err = s.Effect(ctx, e, true)
		}
		if err != nil {
			slog.ErrorContext(ctx, "message failed", "error", err)
			_ = d.Nack(false, true)
			return
		}
		_ = d.Ack(false)
	})
}
