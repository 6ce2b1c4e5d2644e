// Package migrate makes the tables of a part of the library, and brings them up to date.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// lockWait is how many seconds a replica waits for others that migrate.
const lockWait = 300

// Up applies the migrations to the schema that the pool's search_path names first, and makes that.
// Their version is in the table part_version: goose's default table belongs to the user's own
// migrations.
func Up(ctx context.Context, pool *pgxpool.Pool, part string, migrations fs.FS) error {
	pool, err := separate(ctx, pool.Config())
	if err != nil {
		return err
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }() // leaves the pool open
	id, err := lockID(ctx, db, part)
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(id), lock.WithLockTimeout(1, lockWait))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations,
		goose.WithTableName(part+"_version"), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// sessionSQL replaces the defaults of the role that could stop a migration or change its meaning.
// PostgreSQL 17 brought transaction_timeout.
const sessionSQL = `
SET default_transaction_read_only = off; SET default_transaction_isolation = 'read committed';
SET standard_conforming_strings = on;
SELECT set_config(name, '0', false) FROM pg_settings
WHERE name ~ '^(statement|lock|transaction|idle_in_transaction_session|idle_session)_timeout$'`

// separate opens another pool with the configuration of one: sessionSQL must not stay in a session of
// the user's pool.
func separate(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	config.MaxConns, config.MinConns, config.MinIdleConns = 2, 0, 0
	after := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) (err error) {
		if after != nil {
			err = after(ctx, conn)
		}
		if err == nil {
			_, err = conn.Exec(ctx, sessionSQL)
		}
		return err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// schemaSQL returns the first schema of the search_path, and whether it exists. A search_path that
// begins with "$user", as by default, names the first one that exists.
const schemaSQL = `
SELECT schema, to_regnamespace(nullif(schema, '')) IS NOT NULL
FROM (SELECT coalesce(substring(current_setting('search_path') FROM '^\s*("([^"]|"")*"|[^,"\s]+)'), '') AS first) AS path,
LATERAL (SELECT CASE
  WHEN first IN ('', '"$user"', '$user') THEN coalesce(quote_ident(current_schema()), '')
  WHEN first LIKE '"%' THEN first ELSE quote_ident(lower(first COLLATE "C")) END AS schema) AS named`

// createSQL makes a schema. IF NOT EXISTS alone fails if two programs create it at the same time.
const createSQL = `
DO $create$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('schema of an outbox', 0));
  CREATE SCHEMA IF NOT EXISTS %s;
END $create$`

// lockSQL returns no row if the role may not use the schema: then PostgreSQL takes the next one.
const lockSQL = `
SELECT hashtextextended($1 || ' of ' || current_schema(), 0)
WHERE to_regnamespace($2) = to_regnamespace(quote_ident(current_schema()))`

// lockID makes the schema if it is missing, and returns the number of the lock. It is the schema's
// own: the tables of two schemas do not wait for each other, nor for the user's migrations.
func lockID(ctx context.Context, db *sql.DB, part string) (id int64, err error) {
	var schema string
	var exists bool
	if err := db.QueryRowContext(ctx, schemaSQL).Scan(&schema, &exists); err != nil {
		return 0, err
	}
	switch {
	case schema == "":
		return 0, errors.New("the search_path names no schema that exists")
	case !exists: // without it, the tables would be in the next schema of the search_path
		if _, err := db.ExecContext(ctx, fmt.Sprintf(createSQL, schema)); err != nil {
			return 0, fmt.Errorf("the search_path begins with %s, and there is no such schema: CREATE SCHEMA %s: %w", schema, schema, err)
		}
	}
	err = db.QueryRowContext(ctx, lockSQL, part, schema).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("the search_path begins with %s, and the role may not use it: GRANT USAGE, CREATE ON SCHEMA %[1]s TO this role", schema)
	}
	return id, err
}
