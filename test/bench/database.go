package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/migrations"
)

// database is a database with the schema of a service.
type database struct {
	url    string
	pool   *pgxpool.Pool
	broker string // URL of the virtual host for the same run, if there is one
	drop   func()
}

// withDatabase calls use with a new database and a new virtual host, and deletes both.
func (b *bench) withDatabase(ctx context.Context, schema postgres.Migrations, use func(ctx context.Context, d database) error) error {
	d, err := b.newDatabaseOf(ctx, schema)
	if err != nil {
		return err
	}
	defer d.drop()
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return err
	}
	defer drop()
	d.broker = url
	return use(ctx, d)
}

func (b *bench) newDatabase(ctx context.Context) (database, error) {
	return b.newDatabaseOf(ctx, migrations.Schema)
}

func (b *bench) newDatabaseOf(ctx context.Context, schema postgres.Migrations) (d database, err error) {
	name := b.newName()
	if err := b.executeAsAdmin(ctx, "CREATE DATABASE "+name); err != nil {
		return d, err
	}
	d.url = b.postgres.URL(name)
	if d.pool, err = pgxpool.New(ctx, d.url); err != nil {
		return d, err
	}
	d.drop = func() {
		d.pool.Close()
		_ = b.executeAsAdmin(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)") // in the end the server is deleted as well
	}
	if err := schema.Migrate(ctx, d.url); err != nil {
		d.drop()
		return d, err
	}
	return d, nil
}

// fillSQL makes $1 events: eleven for ten orders. The ids grow with time, one per millisecond until
// now. The trace of one event in ten is sampled. $2 makes the ids of two fillings different.
const fillSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type, traceparent)
  SELECT (lpad(to_hex(began + i), 12, '0') || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid,
         (SELECT current FROM outbox_ring), 'order', order_id::text, version, topic,
         convert_to(jsonb_build_object('order_id', order_id, 'order_version', version, 'customer_id', gen_random_uuid(),
           'customer_email', 'ada@domain-' || i % 8 || '.example', 'product_id', 'sku123', 'quantity', 1, 'amount', 2999,
           'currency', 'GBP', 'status', status, 'occurred_at', now())::text, 'UTF8'), 'application/json',
         '00-' || hash || '-' || substr(hash, 1, 16) || CASE i % 10 WHEN 0 THEN '-01' ELSE '-00' END
  FROM generate_series(0, $1::int - 1) i,
  LATERAL (SELECT (extract(epoch FROM now()) * 1000)::bigint - $1 AS began) b,
  LATERAL (SELECT md5($2::text || i) AS hash, (i / 11) * 10 + least(i % 11, 9) AS nth, i % 11 = 10 AS second) e,
  LATERAL (SELECT md5($2::text || 'order' || nth) AS h) o,
  LATERAL (SELECT (lpad(to_hex(began + nth), 12, '0') || '7' || substr(h, 1, 3) || '8' || substr(h, 4, 15))::uuid AS order_id,
                  CASE WHEN second THEN 2 ELSE 1 END AS version,
                  CASE WHEN second THEN 'order.confirmed' ELSE 'order.created' END AS topic,
                  CASE WHEN second THEN 'confirmed' ELSE 'pending' END AS status) v
  ORDER BY i
  RETURNING *
)`

// queueSQL puts the inserted events into the queue.
const queueSQL = `
INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes)
SELECT id, seq, slot, aggregate, aggregate_id, version, topic, octet_length(payload) FROM event`

// fill adds events to publish.
func (d database) fill(ctx context.Context, events int, salt string) error {
	_, err := d.pool.Exec(ctx, fillSQL+queueSQL, events, salt)
	return err
}

// fillPublished adds published events.
func (d database) fillPublished(ctx context.Context, events int, salt string) error {
	_, err := d.pool.Exec(ctx, fillSQL+"INSERT INTO outbox_published (id, slot) SELECT id, slot FROM event", events, salt)
	return err
}

// settle finishes the background work of the filling before the measurement.
func (d database) settle(ctx context.Context) error {
	for _, statement := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := d.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// one returns the only value of a query.
func queryValue[V any](ctx context.Context, d database, query string, args ...any) (V, error) {
	rows, _ := d.pool.Query(ctx, query, args...) // CollectExactlyOneRow returns the error
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[V])
}

const unpublished = "SELECT count(*) FROM outbox_queue"
