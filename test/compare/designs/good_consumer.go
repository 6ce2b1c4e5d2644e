package main

import (
	"context"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// goodConsumer is the consumer for all designs of the order side. It writes the inbox and the
// effect in one transaction, and acknowledges afterwards. It handles one message after the other,
// so the order of the effects is the order of the messages.
func goodConsumer(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, false, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		e, err := shop.Read(d)
		if err != nil {
			_ = d.Nack(false, false) // to the dead letters
			return
		}
		if effectUntilDone(ctx, s, e, false) {
			_ = d.Ack(false)
		}
	})
}

// effectUntilDone tries until it succeeds: a database that is away is not the fault of the message.
func effectUntilDone(ctx context.Context, s *shop.Shop, e shop.Event, mail bool) bool {
	for ctx.Err() == nil {
		err := s.Effect(ctx, e, mail)
		if err == nil {
			return true
		}
		slog.ErrorContext(ctx, "no effect yet", "error", err)
		shop.Sleep(ctx, 300*time.Millisecond)
	}
	return false
}
