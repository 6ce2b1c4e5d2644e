package main

import (
	"context"

	"example.com/transactional-outbox/test/compare/shop"
)

// markBeforeConfirm takes a batch out of the outbox, and then publishes it.
//
// Source: relays that claim with DELETE … RETURNING, or with UPDATE … SET status = 'sent', because
// this takes one statement and no lease. The confirm comes later.
//
// Right: no row is locked for ever, and two relays never publish the same event. It sets mandatory,
// it waits for each confirm, and it puts back what is not confirmed. But a relay that is dead puts
// nothing back.
func markBeforeConfirm(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL}
	go shop.Every(ctx, pollInterval, func(ctx context.Context) error {
		events, err := claim(ctx, s, claimAndMark)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := publisher.Publish(ctx, e); err != nil {
				if err := retryLater(ctx, s, e); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return s.Serve(ctx, s.StoreWithOutbox)
}

const claimAndMark = `
UPDATE outbox SET status = 'published', locked_by = $1
WHERE id IN (
  SELECT id FROM outbox WHERE status = 'pending' AND next_attempt_at <= now()
  ORDER BY seq LIMIT 100 FOR UPDATE SKIP LOCKED)
RETURNING ` + shop.Columns
