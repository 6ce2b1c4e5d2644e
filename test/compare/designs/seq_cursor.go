package main

import (
	"context"

	"github.com/jackc/pgx/v5"

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
	rows, _ := tx.Query(ctx, "SELECT "+shop.Columns+" FROM outbox WHERE seq > $1 ORDER BY seq LIMIT 100", last)
	events, err := pgx.CollectRows(rows, shop.Scan)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := publisher.Publish(ctx, e); err != nil {
			return err // the cursor stays where it was, so the batch is published again
		}
	}
	if len(events) == 0 {
		return nil
	}
	_, err = tx.Exec(ctx, "UPDATE outbox_cursor SET seq = (SELECT seq FROM outbox WHERE id = $1)", events[len(events)-1].ID)
	return err
}
