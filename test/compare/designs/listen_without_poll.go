package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/compare/shop"
)

// listenWithoutPoll publishes the event whose id a notification carries.
//
// Source: articles that replace the poll by LISTEN and NOTIFY, with the row's id as the payload.
//
// Right: it publishes within milliseconds, and an idle system does nothing. The row is locked while
// it is published, with mandatory and a confirm. But PostgreSQL keeps no notification for a
// listener that is not connected, and no notification comes a second time.
func listenWithoutPoll(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL}
	go shop.Every(ctx, pollInterval, func(ctx context.Context) error {
		conn, err := s.DB.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		if _, err := conn.Exec(ctx, "LISTEN outbox"); err != nil {
			return err
		}
		for {
			n, err := conn.Conn().WaitForNotification(ctx)
			if err != nil {
				return err // it listens again
			}
			if err := publishOne(ctx, s, publisher, n.Payload); err != nil {
				slog.ErrorContext(ctx, "not published", "id", n.Payload, "error", err)
			}
		}
	})
	return s.Serve(ctx, func(ctx context.Context, e shop.Event) error {
		return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			if err := errors.Join(shop.Store(ctx, tx, e), shop.Append(ctx, tx, e)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "SELECT pg_notify('outbox', $1)", e.ID)
			return err
		})
	})
}

// publishOne publishes a pending event, unless the other replica does it.
func publishOne(ctx context.Context, s *shop.Shop, publisher *shop.Publisher, id string) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, "SELECT "+shop.Columns+` FROM outbox
			WHERE id = $1 AND status = 'pending' FOR UPDATE SKIP LOCKED`, id)
		e, err := pgx.CollectExactlyOneRow(rows, shop.Scan)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = publisher.Publish(ctx, e)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE outbox SET status = 'published' WHERE id = $1", id)
		return err
	})
}
