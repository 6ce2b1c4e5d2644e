package main

import (
	"context"

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
