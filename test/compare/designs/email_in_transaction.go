package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// emailInTransaction sends the e-mail before it commits the inbox and the effect.
//
// Source: consumers that call the mail server, or a payment provider, in the function that has the
// transaction.
//
// Right: inbox and effect are one transaction, and a failed e-mail rolls both back, so nothing is
// lost. But an e-mail cannot be rolled back. When the commit or the answer of the mail server
// fails, the customer gets it again.
func emailInTransaction(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, false, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		e, err := shop.Read(d)
		if err != nil {
			_ = d.Nack(false, false)
			return
		}
		err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			isNew, err := shop.Record(ctx, tx, e)
			if err != nil || !isNew {
				return err
			}
			return s.SendMail(e)
		})
		if err != nil {
			slog.ErrorContext(ctx, "message failed", "error", err)
			shop.Sleep(ctx, 300*time.Millisecond)
			_ = d.Nack(false, true)
			return
		}
		_ = d.Ack(false)
	})
}
