package main

import (
	"context"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/migrations"
)

// database is one with the schema of a service.
type database struct {
	url    string
	pool   *pgxpool.Pool
	broker string // the URL of the virtual host that goes with it, if there is one
	drop   func()
}

func (b *bench) newDatabase(ctx context.Context) (database, error) {
	return b.newDatabaseOf(ctx, migrations.Files)
}

func (b *bench) newDatabaseOf(ctx context.Context, files fs.FS) (d database, err error) {
	name := b.name()
	if err := b.administer(ctx, "CREATE DATABASE "+name); err != nil {
		return d, err
	}
	d.url = b.postgres.URL(name)
	if d.pool, err = pgxpool.New(ctx, d.url); err != nil {
		return d, err
	}
	d.drop = func() {
		d.pool.Close()
		_ = b.administer(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)") // the server goes as well
	}
	schema := postgres.Migrations{Files: files}
	if err := schema.Migrate(ctx, d.url); err != nil {
		d.drop()
		return d, err
	}
	return d, nil
}

// fillSQL makes $1 events as orders make them: ten orders have eleven events, and the
// ids grow with time. $2 keeps the ids of two fillings apart.
const fillSQL = `
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent,
                           status, available_at, created_at, published_at)
SELECT (lpad(to_hex(1760000000000 + i), 12, '0') || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid,
       'order', order_id, version, event_key,
       jsonb_build_object('order_id', order_id, 'order_version', version, 'customer_id', gen_random_uuid(),
         'customer_email', 'ada@example.com', 'product_id', 'sku123', 'quantity', 1, 'amount', 2999,
         'currency', 'GBP', 'status', status, 'occurred_at', now()),
       '00-' || hash || '-' || substr(hash, 1, 16) || '-01',
       $3::text, now(), now(), CASE WHEN $3::text = 'published' THEN now() END
FROM generate_series(0, $1::int - 1) i,
LATERAL (SELECT md5($2::text || i) AS hash, (i / 11) * 10 + least(i % 11, 9) AS nth, i % 11 = 10 AS second) e,
LATERAL (SELECT md5($2::text || 'order' || nth) AS h) o,
LATERAL (SELECT (lpad(to_hex(1760000000000 + nth), 12, '0') || '7' || substr(h, 1, 3) || '8' || substr(h, 4, 15))::uuid AS order_id,
                CASE WHEN second THEN 2 ELSE 1 END AS version,
                CASE WHEN second THEN 'order.confirmed' ELSE 'order.created' END AS event_key,
                CASE WHEN second THEN 'confirmed' ELSE 'pending' END AS status) v
ORDER BY i`

// fill adds events of a status: pending or published.
func (d database) fill(ctx context.Context, events int, salt, status string) error {
	_, err := d.pool.Exec(ctx, fillSQL, events, salt, status)
	return err
}

// settle lets nothing of the filling run on into the measurement.
func (d database) settle(ctx context.Context) error {
	for _, statement := range []string{"VACUUM ANALYZE outbox_events", "CHECKPOINT"} {
		if _, err := d.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// one runs a query that returns one value.
func one[V any](ctx context.Context, d database, query string, args ...any) (V, error) {
	rows, _ := d.pool.Query(ctx, query, args...) // its error comes out of rows
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[V])
}

const unpublished = "SELECT count(*) FROM outbox_events WHERE status IN ('pending', 'in_progress')"
