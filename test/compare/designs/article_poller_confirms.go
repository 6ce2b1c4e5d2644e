package main

import (
	"context"

	"example.com/transactional-outbox/test/compare/shop"
)

// articlePollerConfirms is the polling relay with what is usually added to it: confirms, a lock
// that ends, a connection that is opened again, and retries without a limit.
//
// Source: "The Transactional Outbox Pattern in Go" and "… in Rust" wait for confirms; the rest is
// what most libraries have. None of the five articles sets mandatory.
//
// Right: a crash of the relay or of the broker loses nothing, and an outage makes nothing failed.
// But a message that reaches no queue is confirmed as well. And two relays, or a retry, can take
// the events of one order in the wrong order.
func articlePollerConfirms(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL, NotMandatory: true}
	go shop.Every(ctx, pollInterval, func(ctx context.Context) error {
		events, err := claim(ctx, s, claimWithLease)
		if err != nil {
			return err
		}
		for _, e := range events {
			settle := markPublished
			if publisher.Publish(ctx, e) != nil {
				settle = retryLater
			}
			if err := settle(ctx, s, e); err != nil {
				return err
			}
		}
		return nil
	})
	return s.Serve(ctx, s.StoreWithOutbox)
}

const claimWithLease = `
UPDATE outbox SET status = 'processing', locked_at = now(), locked_by = $1
WHERE id IN (
  SELECT id FROM outbox
  WHERE status = 'pending' AND next_attempt_at <= now()
     OR status = 'processing' AND locked_at < now() - interval '3 s'
  ORDER BY seq LIMIT 100 FOR UPDATE SKIP LOCKED)
RETURNING ` + shop.Columns

// retryLater makes the event pending again, with a back-off of at most two seconds.
func retryLater(ctx context.Context, s *shop.Shop, e shop.Event) error {
	_, err := s.DB.Exec(ctx, `
		UPDATE outbox SET attempts = attempts + 1, locked_at = NULL, status = 'pending',
		  next_attempt_at = now() + least(power(2, least(attempts, 10)) * interval '200 ms', interval '2 s')
		WHERE id = $1`, e.ID)
	return err
}
