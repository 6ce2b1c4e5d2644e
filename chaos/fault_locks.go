package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// lockTables locks one table after the other against everybody, as a migration or a
// careless operator does.
func (y *system) lockTables(ctx context.Context) error {
	for _, table := range []string{"orders", "outbox_events"} {
		if err := errors.Join(y.lockTable(ctx, table), y.aMoment(ctx, y.scaled(2*time.Second))); err != nil {
			return err
		}
	}
	return nil
}

// waitingSQL counts those who wait for a lock.
const waitingSQL = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

func (y *system) lockTable(ctx context.Context, table string) error {
	return pgx.BeginFunc(ctx, y.orderDB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+table); err != nil {
			return err
		}
		if err := sleep(ctx, y.scaled(8*time.Second)); err != nil { // longer than a request may take
			return err
		}
		waiting := 0
		err := tx.QueryRow(ctx, waitingSQL).Scan(&waiting)
		y.injected += waiting
		return err
	})
}
