package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/compare/shop"
)

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
