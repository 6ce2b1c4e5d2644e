package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/compare/shop"
)

// leaderAdvisoryLock lets one replica publish: the one that holds an advisory lock of its session.
//
// Source: relays and schedulers that elect a leader with pg_try_advisory_lock.
//
// Right: one relay publishes in order, so it needs no claims and keeps the order of all events. It
// sets mandatory, waits for confirms, and marks afterwards. But the lock belongs to a connection,
// and the leader does not check whether it still has the lock. And a leader that stalls keeps the
// lock as long as its connection is open.
func leaderAdvisoryLock(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL}
	go shop.Every(ctx, pollInterval, func(ctx context.Context) error {
		conn, err := s.DB.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		var leader bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(42)").Scan(&leader); err != nil || !leader {
			return err
		}
		shop.Every(ctx, pollInterval, func(ctx context.Context) error { return publishPending(ctx, s, publisher) })
		return ctx.Err()
	})
	return s.Serve(ctx, s.StoreWithOutbox)
}

func publishPending(ctx context.Context, s *shop.Shop, publisher *shop.Publisher) error {
	rows, _ := s.DB.Query(ctx, "SELECT "+shop.Columns+" FROM outbox WHERE status = 'pending' ORDER BY seq LIMIT 100")
	events, err := pgx.CollectRows(rows, shop.Scan)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := publisher.Publish(ctx, e); err != nil {
			return err // so that no later event goes first
		}
		if err := markPublished(ctx, s, e); err != nil {
			return err
		}
	}
	return nil
}
