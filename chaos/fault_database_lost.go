package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/chaos/checker"
)

// loseDatabase lets the network swallow what is sent on the connections that order-service
// has to its database. New ones work.
func (y *system) loseDatabase(ctx context.Context) error {
	var since time.Time
	if err := y.orderDB.QueryRow(ctx, "SELECT now()").Scan(&since); err != nil {
		return err
	}
	for _, p := range y.ordersToDB {
		y.injected += p.Open()
		p.Freeze()
	}
	frozen := time.Now()
	if err := errors.Join(sleep(ctx, mendTime), y.wantPublished(ctx, since)); err != nil {
		return err
	}
	y.wantPublishers(frozen.Add(2 * time.Second)) // what it has in its hands is published first
	before := y.load.Acknowledged()
	y.load.Accuse(true)
	err := sleep(ctx, y.scaled(3*time.Second))
	y.load.Accuse(false)
	if y.load.Acknowledged() == before {
		y.complain("P10", "no order was taken, long after new connections worked")
	}
	return err
}

// wantPublished wants the first events of the orders that came after the connections were
// lost to be published: nothing holds them back. Only the newest may still be due.
func (y *system) wantPublished(ctx context.Context, since time.Time) error {
	rows, _ := y.orderDB.Query(ctx, `
		SELECT id::text, status FROM outbox_events
		WHERE aggregate_version = 1 AND created_at > $1 AND created_at < now() - interval '5 s'`, since)
	events, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[checker.Event])
	due := 0
	for _, e := range events {
		if e.Status != "published" {
			due++
		}
	}
	if due > 0 || len(events) == 0 {
		y.complain("P4", "%d of %d orders that came after the connections were lost are not published after %s", due, len(events), mendTime)
	}
	return err
}

// wantPublishers wants each relay to publish again.
func (y *system) wantPublishers(since time.Time) {
	for _, r := range y.orders {
		if _, err := r.findSince("message published", since); err != nil {
			y.complain("P4", "%s publishes nothing, %s after its connections were lost", r.name, mendTime)
		}
	}
}
