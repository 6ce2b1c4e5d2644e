package inbox

import (
	"context"
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
var files embed.FS

// Migrate makes or upgrades the table, in the schema that the pool's search_path names. The table
// inbox_version has the version of the migrations. Replicas may call it at the same time: one
// migrates, and the others wait. The lock belongs to a session, so the pool must not connect
// through a pooler that shares sessions. Afterwards an inbox needs only the rights to SELECT,
// INSERT, UPDATE and DELETE.
func Migrate(ctx context.Context, pool *pgxpool.Pool) (err error) {
	const id, everySecond, tries = 0x696e626f78, 1, 300 // any id that others do not use
	locker, err1 := lock.NewPostgresSessionLocker(lock.WithLockID(id), lock.WithLockTimeout(everySecond, tries))
	folder, err2 := fs.Sub(files, "migrations")
	db := stdlib.OpenDBFromPool(pool)
	defer func() { err = errors.Join(err, db.Close()) }() // the pool stays open
	provider, err3 := goose.NewProvider(goose.DialectPostgres, db, folder,
		goose.WithTableName("inbox_version"), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("inbox: preparing the migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("inbox: migrating: %w", err)
	}
	return nil
}
