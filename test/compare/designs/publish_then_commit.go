package main

import (
	"context"

	"example.com/transactional-outbox/test/compare/shop"
)

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
