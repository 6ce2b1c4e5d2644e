package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// articlePoller is the outbox with a polling relay that the articles build.
//
// Source: "Transactional Outbox with RabbitMQ", parts 1 and 2 (Sagar Maheshwary, February 2026):
// the poll, one connection that is opened at the start, no confirms, three retries with back-off,
// then the state failed. And "The Transactional Outbox Pattern in Go: What the Compiler Enforces
// and What Rust Leaves to You": the claim below. Its text says that a claim ends after the lock
// time. But the claim takes only pending rows, so the row of a dead relay is never taken again.
//
// Right: order and event are one transaction. Several replicas claim different rows. Retries are
// durable, and an event that has failed stays visible in the table.
func articlePoller(ctx context.Context, s *shop.Shop) error {
	_, channel, err := shop.OpenChannel(s.AMQPURL)
	if err != nil {
		return err
	}
	return poll(ctx, s, claimOfTheArticles, func(ctx context.Context, e shop.Event) error {
		return articlePublish(ctx, s, channel, e)
	})
}

// The articles poll every 2 s and lock for 30 s. All times here are a tenth of those.
const pollInterval = 200 * time.Millisecond

const claimOfTheArticles = `
UPDATE outbox SET status = 'processing', locked_at = now(), locked_by = $1
WHERE id IN (
  SELECT id FROM outbox
  WHERE status = 'pending' AND next_attempt_at <= now()
    AND (locked_at IS NULL OR locked_at < now() - interval '3 s')
  ORDER BY seq LIMIT 100 FOR UPDATE SKIP LOCKED)
RETURNING ` + shop.Columns

// poll claims events again and again, and publishes one after the other. It takes orders meanwhile.
func poll(ctx context.Context, s *shop.Shop, claim string, publish func(context.Context, shop.Event) error) error {
	go shop.Every(ctx, pollInterval, func(ctx context.Context) error {
		return publishEach(ctx, s.DB, publish, claim, s.Name)
	})
	return s.Serve(ctx, s.StoreWithOutbox)
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// publishEach publishes the events that a query returns. It ends at the first error, so that no
// later event goes first.
func publishEach(ctx context.Context, db querier, publish func(context.Context, shop.Event) error, sql string, args ...any) error {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns its error
	events, err := pgx.CollectRows(rows, shop.Scan)
	for _, e := range events {
		if err == nil {
			err = publish(ctx, e)
		}
	}
	return err
}

// articlePublish marks an event as published when the library's call returns without an error. This
// only means that the message was written to the socket.
func articlePublish(ctx context.Context, s *shop.Shop, channel *amqp.Channel, e shop.Event) error {
	err := channel.PublishWithContext(ctx, shop.Exchange, e.Key, false, false, shop.Message(e))
	if err == nil {
		return markPublished(ctx, s, e)
	}
	const retries = 3
	_, err = s.DB.Exec(ctx, `
		UPDATE outbox SET attempts = attempts + 1, locked_at = NULL,
		  status = CASE WHEN attempts < $2 THEN 'pending' ELSE 'failed' END,
		  next_attempt_at = now() + power(2, attempts) * interval '600 ms' + $3 * interval '100 ms'
		WHERE id = $1`, e.ID, retries, rand.Float64())
	return err
}

func markPublished(ctx context.Context, s *shop.Shop, e shop.Event) error {
	_, err := s.DB.Exec(ctx, "UPDATE outbox SET status = 'published', locked_at = NULL WHERE id = $1", e.ID)
	return err
}

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
	return poll(ctx, s, claimWithLease, func(ctx context.Context, e shop.Event) error {
		if publisher.Publish(ctx, e) != nil {
			return retryLater(ctx, s, e)
		}
		return markPublished(ctx, s, e)
	})
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
	return poll(ctx, s, claimAndMark, func(ctx context.Context, e shop.Event) error {
		if publisher.Publish(ctx, e) != nil {
			return retryLater(ctx, s, e)
		}
		return nil
	})
}

const claimAndMark = `
UPDATE outbox SET status = 'published', locked_by = $1
WHERE id IN (
  SELECT id FROM outbox WHERE status = 'pending' AND next_attempt_at <= now()
  ORDER BY seq LIMIT 100 FOR UPDATE SKIP LOCKED)
RETURNING ` + shop.Columns
