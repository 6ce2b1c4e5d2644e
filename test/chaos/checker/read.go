package checker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ReadOrders adds the orders and their events.
func (e *Evidence) ReadOrders(ctx context.Context, orders *pgxpool.Pool) (err error) {
	if e.Orders, err = readAll[Order](ctx, orders, "SELECT id::text, customer_email AS email, version FROM orders"); err != nil {
		return err
	}
	// Other topics have events of the suite itself.
	e.Events, err = readAll[Event](ctx, orders, `
		SELECT id::text, aggregate_id AS order_id, version, topic AS key, status, retry_count, payload FROM outbox_status
		WHERE topic LIKE 'order.%'`)
	return err
}

// ReadDatabases adds the rows of both databases.
func (e *Evidence) ReadDatabases(ctx context.Context, orders, notifications *pgxpool.Pool) (err error) {
	if err := e.ReadOrders(ctx, orders); err != nil {
		return err
	}
	e.Emails, err = readAll[Email](ctx, notifications, "SELECT id::text, aggregate_id AS order_id, version, status FROM outbox_status")
	if err != nil {
		return err
	}
	rows, _ := notifications.Query(ctx, "SELECT message_id FROM processed_messages")
	if e.Recorded, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	for _, db := range []*pgxpool.Pool{orders, notifications} {
		err := errors.Join(e.readRelay(ctx, db), e.readTimes(ctx, db),
			e.readTime(ctx, db, "(payload::json->>'occurred_at')::timestamptz", "outbox_status"))
		if err != nil {
			return err
		}
	}
	return nil
}

// readRelay adds what the triggers of the suite have recorded about the relays of a database.
func (e *Evidence) readRelay(ctx context.Context, db *pgxpool.Pool) error {
	n := 0
	err := db.QueryRow(ctx, "SELECT count(*) FROM unpublished").Scan(&n)
	if err != nil {
		return err
	}
	rows, _ := db.Query(ctx, "SELECT held FROM reclaims")
	reclaims, err := pgx.CollectRows(rows, pgx.RowTo[time.Duration])
	e.Unpublished, e.Reclaims = e.Unpublished+n, append(e.Reclaims, reclaims...)
	return err
}

// columnsSQL finds every column with a time, also in tables that a later migration adds. It leaves
// out views: their times come from tables.
const columnsSQL = `
SELECT c.column_name::text AS name, c.table_name::text AS of
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.data_type = 'timestamp with time zone'`

// readTimes adds the first and the last time of every column of a database.
func (e *Evidence) readTimes(ctx context.Context, db *pgxpool.Pool) error {
	type column struct{ Name, Of string }
	columns, err := readAll[column](ctx, db, columnsSQL)
	for _, c := range columns {
		err = errors.Join(err, e.readTime(ctx, db, pgx.Identifier{c.Name}.Sanitize(), c.Of))
	}
	return err
}

// readTime adds the first and the last time of one expression.
func (e *Evidence) readTime(ctx context.Context, db *pgxpool.Pool, expression, table string) error {
	var first, last *time.Time
	query := fmt.Sprintf("SELECT min(%[1]s), max(%[1]s) FROM %[2]s WHERE isfinite(%[1]s)", expression, pgx.Identifier{table}.Sanitize())
	if err := db.QueryRow(ctx, query).Scan(&first, &last); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	for _, at := range []*time.Time{first, last} {
		if at != nil {
			e.Times = append(e.Times, Time{table + "." + expression, *at})
		}
	}
	return nil
}

// readAll reads rows into structs, by the names of the columns.
func readAll[T any](ctx context.Context, db *pgxpool.Pool, query string) ([]T, error) {
	rows, _ := db.Query(ctx, query) // CollectRows returns its error
	return pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
}
