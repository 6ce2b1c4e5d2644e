package checker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ReadDatabases adds what both databases hold.
func (e *Evidence) ReadDatabases(ctx context.Context, orders, notifications *pgxpool.Pool) (err error) {
	if e.Orders, err = all[Order](ctx, orders, "SELECT id::text, customer_email AS email, version FROM orders"); err != nil {
		return err
	}
	e.Events, err = all[Event](ctx, orders, `
		SELECT id::text, aggregate_id::text AS order_id, aggregate_version AS version, event_key AS key,
		       status, retry_count, payload::text FROM outbox_events`)
	if err != nil {
		return err
	}
	if err := orders.QueryRow(ctx, "SELECT count(*) FROM regrets").Scan(&e.Regrets); err != nil {
		return err
	}
	e.Notifications, err = all[Notification](ctx, notifications, `
		SELECT message_id::text AS id, order_id::text, order_version AS version, recipient, status FROM notifications`)
	if err != nil {
		return err
	}
	rows, _ := notifications.Query(ctx, "SELECT message_id::text FROM processed_messages")
	if e.Processed, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	rows, _ = orders.Query(ctx, "SELECT held FROM reclaims")
	if e.Reclaims, err = pgx.CollectRows(rows, pgx.RowTo[time.Duration]); err != nil {
		return err
	}
	return errors.Join(
		e.readTimes(ctx, orders, "(payload->>'occurred_at')::timestamptz", "outbox_events"),
		e.readTimes(ctx, notifications, "(order_details->>'occurred_at')::timestamptz", "notifications"))
}

// columnsSQL finds every column that holds a time, so that none is forgotten which a
// later migration adds.
const columnsSQL = `
SELECT column_name::text AS name, table_name::text AS of FROM information_schema.columns
WHERE table_schema = 'public' AND data_type = 'timestamp with time zone'`

// readTimes adds the first and the last time of every column of a database, and of one
// expression.
func (e *Evidence) readTimes(ctx context.Context, db *pgxpool.Pool, expression, table string) error {
	type column struct{ Name, Of string }
	columns, err := all[column](ctx, db, columnsSQL)
	if err != nil {
		return err
	}
	for i := range columns {
		columns[i].Name = pgx.Identifier{columns[i].Name}.Sanitize()
	}
	for _, c := range append(columns, column{expression, table}) {
		var first, last *time.Time
		query := fmt.Sprintf("SELECT min(%[1]s), max(%[1]s) FROM %[2]s WHERE isfinite(%[1]s)", c.Name, pgx.Identifier{c.Of}.Sanitize())
		if err := db.QueryRow(ctx, query).Scan(&first, &last); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		for _, at := range []*time.Time{first, last} {
			if at != nil {
				e.Times = append(e.Times, Time{c.Of + "." + c.Name, *at})
			}
		}
	}
	return nil
}

// all reads rows, by the names of their columns.
func all[T any](ctx context.Context, db *pgxpool.Pool, query string) ([]T, error) {
	rows, _ := db.Query(ctx, query) // CollectRows returns its error
	return pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
}
