package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
	"example.com/transactional-outbox/test/suite"
)

// goodConsumer is the consumer for all designs of the order side. It writes the inbox and the
// effect in one transaction, and acknowledges afterwards. It handles one message after the other,
// so the order of the effects is the order of the messages.
func goodConsumer(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, false, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		effectUntilDone(ctx, s, d, false)
	})
}

// effectUntilDone tries until it succeeds, and acknowledges the message: a database that is away is
// not the fault of the message. One that cannot be read goes to the dead letters.
func effectUntilDone(ctx context.Context, s *shop.Shop, d amqp.Delivery, mail bool) {
	e, err := shop.Read(d)
	if err != nil {
		_ = d.Nack(false, false)
		return
	}
	for ctx.Err() == nil {
		if err = s.Effect(ctx, e, mail); err == nil {
			_ = d.Ack(false)
			return
		}
		slog.ErrorContext(ctx, "no effect yet", "error", err)
		_ = suite.Sleep(ctx, 300*time.Millisecond)
	}
}

// ackFirst takes messages that the broker forgets when it has sent them.
//
// Source: autoAck = true, as in the first of RabbitMQ's tutorials, and in many services since.
//
// Right: the simplest and fastest consumer, and no message is delivered twice. Inbox and effect are
// one transaction. But nobody has the message any more when the work on it fails.
func ackFirst(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, true, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		_ = readAndWork(ctx, d, func(e shop.Event) error { return s.Effect(ctx, e, true) })
	})
}

// readAndWork logs and returns an error of reading a message, or of the work on it.
func readAndWork(ctx context.Context, d amqp.Delivery, work func(shop.Event) error) error {
	e, err := shop.Read(d)
	if err == nil {
		err = work(e)
	}
	if err != nil {
		slog.ErrorContext(ctx, "message failed", "error", err)
	}
	return err
}

// nackRequeue returns a failed message to the queue at once.
//
// Source: basic.nack with requeue = true, which is the default of several consumer libraries.
//
// Right: nothing is lost, and after an outage it goes on by itself. Inbox and effect are one
// transaction. But a message that never succeeds comes again at once, for ever, and costs time of
// the consumer and of the broker.
func nackRequeue(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, false, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		if readAndWork(ctx, d, func(e shop.Event) error { return s.Effect(ctx, e, true) }) != nil {
			_ = d.Nack(false, true)
			return
		}
		_ = d.Ack(false)
	})
}

// requeueLater acknowledges a message after the work on it. One that cannot be read goes to the
// dead letters, and one that fails goes back to the queue after a pause.
func requeueLater(ctx context.Context, s *shop.Shop, work func(context.Context, shop.Event) error) error {
	return s.Consume(ctx, false, func(ctx context.Context, _ *amqp.Channel, d amqp.Delivery) {
		if _, err := shop.Read(d); err != nil {
			_ = d.Nack(false, false)
			return
		}
		if readAndWork(ctx, d, func(e shop.Event) error { return work(ctx, e) }) != nil {
			_ = suite.Sleep(ctx, 300*time.Millisecond)
			_ = d.Nack(false, true)
			return
		}
		_ = d.Ack(false)
	})
}

// inboxOtherTransaction remembers the message id first, and then writes the effect.
//
// Source: consumers with a deduplication in Redis, in a middleware, or in a repository with a
// transaction of its own.
//
// Right: a repeated message has no second effect, and the ack comes last. But when the work fails
// after the id is stored, the next delivery looks like a repeat.
func inboxOtherTransaction(ctx context.Context, s *shop.Shop) error {
	return requeueLater(ctx, s, func(ctx context.Context, e shop.Event) error {
		inserted, err := s.DB.Exec(ctx, "INSERT INTO inbox VALUES ($1) ON CONFLICT DO NOTHING", e.ID)
		if err != nil || inserted.RowsAffected() == 0 {
			return err
		}
		if err := s.SendMail(e); err != nil {
			return err
		}
		return shop.WriteEffect(ctx, s.DB, e)
	})
}

// emailInTransaction sends the e-mail before it commits the inbox and the effect.
//
// Source: consumers that call the mail server, or a payment provider, in the function that has the
// transaction.
//
// Right: inbox and effect are one transaction, and a failed e-mail rolls both back, so nothing is
// lost. But an e-mail cannot be rolled back. When the commit or the answer of the mail server
// fails, the customer gets it again.
func emailInTransaction(ctx context.Context, s *shop.Shop) error {
	return requeueLater(ctx, s, func(ctx context.Context, e shop.Event) error {
		return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			isNew, err := shop.Record(ctx, tx, e)
			if err != nil || !isNew {
				return err
			}
			return s.SendMail(e)
		})
	})
}
