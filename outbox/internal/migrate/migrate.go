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
	var encoding string
	if err := pool.QueryRow(ctx, "SELECT getdatabaseencoding()").Scan(&encoding); err != nil {
		return err
	}
	if encoding != Encoding {
		return EncodingError(encoding)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }() // leaves the pool open
	id, err := lockID(ctx, pool, db, part)
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

// Encoding is the only one that stores every topic, header and reason.
const Encoding = "UTF8"

// EncodingError says that a database has another encoding.
func EncodingError(encoding string) error {
	return fmt.Errorf("the encoding of the database is %s, which cannot store every text: create one with ENCODING 'UTF8' TEMPLATE template0", encoding)
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

// schemaSQL returns the first schema of the search_path, whether PostgreSQL makes tables there, and
// the number of the lock. PostgreSQL takes the next schema if the first one does not exist, or if the
// role may not use it. If the path begins with "$user", as by default, any schema is right.
const schemaSQL = `
SELECT schema, coalesce(to_regnamespace(nullif(schema, '')) = to_regnamespace(taken), false),
  hashtextextended($1 || ' of ' || coalesce(taken, ''), 0)
FROM (SELECT quote_ident(current_schema()) AS taken,
  coalesce(substring(current_setting('search_path') FROM '^\s*("([^"]|"")*"|[^,\s]+)'), '') AS first) AS path,
LATERAL (SELECT CASE
  WHEN first IN ('', '"$user"', '$user') THEN coalesce(taken, '')
  WHEN first LIKE '"%' THEN first ELSE quote_ident(lower(first COLLATE "C")) END AS schema) AS named`

// lockID makes the schema if it is missing, and returns the number of the lock. It is the schema's
// own: the tables of two schemas do not wait for each other, nor for the user's migrations.
func lockID(ctx context.Context, pool *pgxpool.Pool, db *sql.DB, part string) (id int64, err error) {
	var schema string
	var taken bool
	find := func() error { return db.QueryRowContext(ctx, schemaSQL, part).Scan(&schema, &taken, &id) }
	if err := find(); err != nil || taken {
		return id, err
	}
	if schema == "" {
		return 0, errors.New("the search_path names no schema that exists")
	}
	if err := create(ctx, db, schema); err != nil {
		return 0, err
	}
	// A session of PostgreSQL 15 that looks up its search_path while a schema of it is made may never
	// find that schema.
	pool.Reset()
	if err := find(); err != nil || taken {
		return id, err
	}
	return 0, fmt.Errorf("the search_path begins with %s, and the role may not use it: GRANT USAGE, CREATE ON SCHEMA %[1]s TO this role", schema)
}

// create makes the schema, unless another replica has just made it. Without the lock, two of them
// would make it at the same time, and one would get an error.
func create(ctx context.Context, db *sql.DB, schema string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('schema of an outbox', 0))"); err != nil {
		return err
	}
	var missing bool
	if err := tx.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT FROM pg_namespace WHERE oid = to_regnamespace($1))", schema).Scan(&missing); err != nil {
		return err
	}
	if missing {
		if _, err := tx.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
			return fmt.Errorf("the search_path begins with %s, and there is no such schema: CREATE SCHEMA %[1]s: %w", schema, err)
		}
	}
	return tx.Commit()
}
