package checker

import (
	"context"

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
	e.Processed, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return err
}

// all reads rows, by the names of their columns.
func all[T any](ctx context.Context, db *pgxpool.Pool, query string) ([]T, error) {
	rows, _ := db.Query(ctx, query) // CollectRows returns its error
	return pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
}
