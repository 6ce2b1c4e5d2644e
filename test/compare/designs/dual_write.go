package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/compare/shop"
)

// commitThenPublish stores the order, and then publishes the event.
//
// Source: the first example of most articles about the outbox, and most services without one.
//
// Right: nothing is published for an order that does not exist. It waits for the confirm and
// detects messages without a queue, and the client gets an error if the publish fails. But then the
// order is stored already, and after a crash nobody knows that its event is missing.
func commitThenPublish(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL}
	return s.Serve(ctx, func(ctx context.Context, e shop.Event) error {
		if err := shop.Store(ctx, s.DB, e); err != nil { // one statement commits at once
			return err
		}
		return publisher.Publish(ctx, e)
	})
}

// publishThenCommit publishes the event, and then stores the order.
//
// Source: the usual answer to the loss of commit-then-publish, in the same articles.
//
// Right: no event is lost, because an order is stored only after the confirm of its event. But the
// event cannot be taken back when the order is not stored.
func publishThenCommit(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL}
	return s.Serve(ctx, func(ctx context.Context, e shop.Event) error {
		if err := publisher.Publish(ctx, e); err != nil {
			return err
		}
		return shop.Store(ctx, s.DB, e)
	})
}

// publishInsideTransaction stores the order, publishes, and commits.
//
// Source: services in which the publish stands inside the function that has the transaction.
//
// Right: if the publish fails, the order is rolled back. So no event is lost. But the commit comes
// after the publish and can fail as well, and each transaction is open as long as the broker takes.
func publishInsideTransaction(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL}
	return s.Serve(ctx, func(ctx context.Context, e shop.Event) error {
		return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			if err := shop.Store(ctx, tx, e); err != nil {
				return err
			}
			return publisher.Publish(ctx, e)
		})
	})
}
