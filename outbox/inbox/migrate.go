package inbox

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/migrate"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Migrate makes the table, or brings it up to date, in the schema that the pool's search_path names
// first. If that does not exist, Migrate makes it. Replicas may call it at the same time. The pool
// must not connect through a pooler that shares sessions. Afterwards an inbox only reads and writes
// rows.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	files, err := fs.Sub(embedded, "migrations")
	if err == nil {
		err = migrate.Up(ctx, pool, "inbox", files)
	}
	const duplicateTable = "42P07"
	if p, ok := errors.AsType[*pgconn.PgError](err); ok && p.Code == duplicateTable {
		err = fmt.Errorf("another program has a table of this name: rename that, or let the search_path name a schema for the inbox: %w", err)
	}
	if err != nil {
		return fmt.Errorf("inbox: migrating: %w", err)
	}
	return nil
}
