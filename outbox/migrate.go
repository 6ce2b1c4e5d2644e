package outbox

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Migrations returns the migrations of the tables, in the format of goose, for programs that apply
// all migrations with one tool. The file schema.sql explains the tables.
func Migrations() fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name of the folder is a constant
	}
	return files
}

// versionTable is not goose's default: that one belongs to the user's own migrations.
const versionTable = "outbox_version"

// lockWait is how many seconds a replica waits for others that migrate.
const lockWait = 300

// Migrate makes the tables of the outbox, or brings them up to date, in the schema that the pool's
// search_path names first. It may be called at each start, and by several replicas at the same
// time: one of them migrates, and the others wait. The lock belongs to a session, so the pool must
// not connect through a pooler that shares sessions, such as PgBouncer in its transaction mode.
//
// The role needs the right to create tables in the schema.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }() // leaves the pool open
	if err := migrate(ctx, db); err != nil {
		return fmt.Errorf("migrating the outbox: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	id, err := migrationLock(ctx, db)
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(id), lock.WithLockTimeout(1, lockWait))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, Migrations(),
		goose.WithTableName(versionTable), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// migrationLock returns the number of the lock. It is the schema's own: the outboxes of two schemas
// do not wait for each other, nor for the user's migrations.
func migrationLock(ctx context.Context, db *sql.DB) (int64, error) {
	var schema sql.NullString
	var id int64
	err := db.QueryRowContext(ctx, `SELECT current_schema()::text, hashtextextended('outbox of ' || coalesce(current_schema()::text, ''), 0)`).Scan(&schema, &id)
	if err == nil && !schema.Valid {
		err = errors.New("the search_path names no schema that exists")
	}
	return id, err
}
