package main

import (
	"context"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// inboxOtherTransaction remembers the message id first, and then writes the effect.
//
// Source: consumers with a deduplication in Redis, in a middleware, or in a repository with a
// transaction of its own.
//
// Right: a repeated message has no second effect, and the ack comes last. But when the work fails
// after the id is stored, the next delivery looks like a repeat.
func inboxOtherTransaction(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, false, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		e, err := shop.Read(d)
		if err != nil {
			_ = d.Nack(false, false)
			return
		}
		if err := effectAfterInbox(ctx, s, e); err != nil {
			slog.ErrorContext(ctx, "message failed", "error", err)
			shop.Sleep(ctx, 300*time.Millisecond)
			_ = d.Nack(false, true)
			return
		}
		_ = d.Ack(false)
	})
}

func effectAfterInbox(ctx context.Context, s *shop.Shop, e shop.Event) error {
	inserted, err := s.DB.Exec(ctx, "INSERT INTO inbox VALUES ($1) ON CONFLICT DO NOTHING", e.ID)
	if err != nil || inserted.RowsAffected() == 0 {
		return err
	}
	if err := s.SendMail(e); err != nil {
		return err
	}
	return shop.WriteEffect(ctx, s.DB, e)
}
