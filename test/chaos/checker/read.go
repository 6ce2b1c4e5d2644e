package checker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ReadDatabases adds the rows of both databases.
func (e *Evidence) ReadDatabases(ctx context.Context, orders, notifications *pgxpool.Pool) (err error) {
	if e.Orders, err = readAll[Order](ctx, orders, "SELECT id::text, customer_email AS email, version FROM orders"); err != nil {
		return err
	}
	// Other topics have events of the suite itself.
	e.Events, err = readAll[Event](ctx, orders, `
		SELECT id::text, aggregate_id AS order_id, version, topic AS key, status, retry_count, payload FROM outbox_status
		WHERE topic LIKE 'order.%'`)
	if err != nil {
		return err
	}
	if err := orders.QueryRow(ctx, "SELECT count(*) FROM unpublished WHERE NOT deleted OR event_id NOT IN (SELECT id FROM outbox_published)").Scan(&e.Unpublished); err != nil {
		return err
	}
	e.Notifications, err = readAll[Notification](ctx, notifications, `
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
		e.readTimes(ctx, orders, "(payload::json->>'occurred_at')::timestamptz", "outbox_status"),
		e.readTimes(ctx, notifications, "(order_details->>'occurred_at')::timestamptz", "notifications"))
}

// columnsSQL finds every column with a time, also in tables that a later migration adds. It leaves
// out views: their times come from tables. It also leaves out the ring: its time is that of the
// template that all scenarios copy.
const columnsSQL = `
SELECT c.column_name::text AS name, c.table_name::text AS of
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.data_type = 'timestamp with time zone'
  AND c.table_name <> 'outbox_ring'`

// readTimes adds the first and the last time of every column of a database, and of one expression.
func (e *Evidence) readTimes(ctx context.Context, db *pgxpool.Pool, expression, table string) error {
	type column struct{ Name, Of string }
	columns, err := readAll[column](ctx, db, columnsSQL)
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

// readAll reads rows into structs, by the names of the columns.
func readAll[T any](ctx context.Context, db *pgxpool.Pool, query string) ([]T, error) {
	rows, _ := db.Query(ctx, query) // CollectRows returns its error
	return pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
}
