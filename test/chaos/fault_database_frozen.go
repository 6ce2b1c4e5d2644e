package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/servicelog"
)

// freezeDatabaseConnections freezes order-service's open connections to its database. New
// connections work.
func (sys *system) freezeDatabaseConnections(ctx context.Context) error {
	var since time.Time
	if err := sys.orderDB.QueryRow(ctx, "SELECT now()").Scan(&since); err != nil {
		return err
	}
	for _, p := range sys.ordersToDB {
		sys.injected += p.Open()
		p.Freeze()
	}
	frozen := time.Now()
	if err := errors.Join(sleep(ctx, recoveryTime), sys.requirePublished(ctx, since)); err != nil {
		return err
	}
	sys.requirePublishing(frozen.Add(2 * time.Second)) // after its open batch
	before := sys.load.Acknowledged()
	sys.load.SetMustSucceed(true)
	err := sleep(ctx, sys.scaled(3*time.Second))
	sys.load.SetMustSucceed(false)
	if sys.load.Acknowledged() == before {
		sys.reportViolation("P10", "no order was placed, long after new connections worked")
	}
	return err
}

// requirePublished requires that the first events of new orders are published. Only events of the
// last five seconds may still be due.
func (sys *system) requirePublished(ctx context.Context, since time.Time) error {
	rows, _ := sys.orderDB.Query(ctx, `
		SELECT id::text, status FROM outbox_status
		WHERE version = 1 AND created_at > $1 AND created_at < now() - interval '5 s'`, since)
	events, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[checker.Event])
	due := 0
	for _, e := range events {
		if e.Status != "published" {
			due++
		}
	}
	if due > 0 || len(events) == 0 {
		sys.reportViolation("P4", "%d of %d orders placed after the connections were lost are not published after %s", due, len(events), recoveryTime)
	}
	return err
}

// requirePublishing requires that each relay publishes again.
func (sys *system) requirePublishing(since time.Time) {
	for _, r := range sys.orderServices {
		if _, err := r.findSince(servicelog.MessagePublished, since); err != nil {
			sys.reportViolation("P4", "%s publishes nothing, %s after its connections were lost", r.name, recoveryTime)
		}
	}
}
