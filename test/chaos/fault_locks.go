package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// lockTables locks one table after the other in ACCESS EXCLUSIVE mode, as a migration does.
func (sys *system) lockTables(ctx context.Context) error {
	for _, table := range []string{"orders", "outbox_events", "outbox_queue", "outbox_claims"} {
		if err := errors.Join(sys.lockTable(ctx, table), sys.sleepRandom(ctx, sys.scaled(2*time.Second))); err != nil {
			return err
		}
	}
	return nil
}

// waitingSQL counts the sessions that wait for a lock.
const waitingSQL = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

func (sys *system) lockTable(ctx context.Context, table string) error {
	return pgx.BeginFunc(ctx, sys.orderDB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+table); err != nil {
			return err
		}
		if err := sleep(ctx, sys.scaled(8*time.Second)); err != nil { // longer than a request may take
			return err
		}
		waiting := 0
		err := tx.QueryRow(ctx, waitingSQL).Scan(&waiting)
		sys.injected += waiting
		return err
	})
}

// holdSnapshot keeps a snapshot open, so that vacuum cannot remove the old versions of updated
// rows.
func (sys *system) holdSnapshot(ctx context.Context) error {
	tx, err := sys.orderDB.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM outbox_events").Scan(new(int)); err != nil {
		return err
	}
	if err := sleep(ctx, sys.scaled(8*time.Second)); err != nil {
		return err
	}
	return sys.orderDB.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xmin IS NOT NULL").Scan(&sys.injected)
}
