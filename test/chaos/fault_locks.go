package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lockTables locks one table after the other in ACCESS EXCLUSIVE mode, as a migration does.
func (sys *system) lockTables(ctx context.Context) error {
	return sys.lockEach(ctx, sys.orderDB, "orders", "outbox_events", "outbox_queue", "outbox_claims")
}

// lockConsumersTables does the same to the consumer's tables.
func (sys *system) lockConsumersTables(ctx context.Context) error {
	if err := sys.lockEach(ctx, sys.notificationDB, "processed_messages", "order_progress", "outbox_queue", "outbox_published"); err != nil {
		return err
	}
	return sys.requireAllEffects(ctx, recoveryTime)
}

func (sys *system) lockEach(ctx context.Context, db *pgxpool.Pool, tables ...string) error {
	for _, table := range tables {
		if err := errors.Join(sys.lockTable(ctx, db, table), sys.sleepRandom(ctx, sys.scaled(2*time.Second))); err != nil {
			return err
		}
	}
	return nil
}

// waitingSQL counts the sessions that wait for a lock.
const waitingSQL = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

func (sys *system) lockTable(ctx context.Context, db *pgxpool.Pool, table string) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
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
