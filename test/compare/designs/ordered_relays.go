package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/compare/shop"
)

// seqCursor remembers the number of the last published event, and reads the events after it.
//
// Source: projections and relays that follow a bigserial column, as readers of an event store do.
//
// Right: no row of the outbox is updated, so it is the cheapest relay. Only one replica publishes
// at a time. It sets mandatory, waits for confirms, and keeps the order of the numbers. But a
// number is given when the row is inserted, and another transaction with a higher number can
// commit earlier. Then the cursor has passed the lower one before it can be seen.
func seqCursor(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL}
	go shop.Every(ctx, pollInterval/10, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			return publishAfterCursor(ctx, tx, publisher)
		})
	})
	return s.Serve(ctx, s.StoreWithOutbox)
}

func publishAfterCursor(ctx context.Context, tx pgx.Tx, publisher *shop.Publisher) error {
	var last int64 // the lock keeps the other replica out
	if err := tx.QueryRow(ctx, "SELECT seq FROM outbox_cursor FOR UPDATE").Scan(&last); err != nil {
		return err
	}
	published := ""
	err := publishEach(ctx, tx, func(ctx context.Context, e shop.Event) error {
		published = e.ID
		return publisher.Publish(ctx, e)
	}, "SELECT "+shop.Columns+" FROM outbox WHERE seq > $1 ORDER BY seq LIMIT 100", last)
	if err != nil || published == "" {
		return err // the cursor stays where it was, so the batch is published again
	}
	_, err = tx.Exec(ctx, "UPDATE outbox_cursor SET seq = (SELECT seq FROM outbox WHERE id = $1)", published)
	return err
}

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
	publish := func(ctx context.Context, e shop.Event) error {
		if err := publisher.Publish(ctx, e); err != nil {
			return err
		}
		return markPublished(ctx, s, e)
	}
	go onOneConnection(ctx, s, func(ctx context.Context, conn *pgx.Conn) error {
		var leader bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(42)").Scan(&leader); err != nil || !leader {
			return err
		}
		shop.Every(ctx, pollInterval, func(ctx context.Context) error {
			return publishEach(ctx, s.DB, publish, "SELECT "+shop.Columns+" FROM outbox WHERE status = 'pending' ORDER BY seq LIMIT 100")
		})
		return ctx.Err()
	})
	return s.Serve(ctx, s.StoreWithOutbox)
}

// onOneConnection calls do again and again, each time on a connection that it has for itself.
func onOneConnection(ctx context.Context, s *shop.Shop, do func(context.Context, *pgx.Conn) error) {
	shop.Every(ctx, pollInterval, func(ctx context.Context) error {
		return s.DB.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return do(ctx, conn.Conn()) })
	})
}

// listenWithoutPoll publishes the event whose id a notification carries.
//
// Source: articles that replace the poll by LISTEN and NOTIFY, with the row's id as the payload.
//
// Right: it publishes within milliseconds, and an idle system does nothing. The row is locked while
// it is published, with mandatory and a confirm. But PostgreSQL keeps no notification for a
// listener that is not connected, and no notification comes a second time.
func listenWithoutPoll(ctx context.Context, s *shop.Shop) error {
	publisher := &shop.Publisher{URL: s.AMQPURL}
	go onOneConnection(ctx, s, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "LISTEN outbox"); err != nil {
			return err
		}
		for {
			n, err := conn.WaitForNotification(ctx)
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
