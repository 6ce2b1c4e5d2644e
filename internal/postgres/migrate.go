package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrations are the numbered .sql files of one service, with the name of the
// command that applies them, for the hint in an error.
type Migrations struct {
	Files   fs.FS
	Command string
}

// Migrate waits for the database at url to answer, applies what is missing of m,
// and logs each file that it applied. A wrong password, role or database name is
// an error at once.
func (m Migrations) Migrate(ctx context.Context, url string) error {
	db, err := Open(ctx, url, migrationConns)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.wait(ctx, db.Ping, misconfigured); err != nil {
		return err
	}
	applied, err := m.Apply(ctx, db)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "the schema is up to date", "applied", applied)
	return nil
}

// migrationConns is one for the lock and one for the migrations.
const migrationConns = 2

// Apply brings the schema up to date and returns the names of the files that it
// applied. A session lock lets replicas start together: one applies, the others
// wait for it and find nothing left to do.
func (m Migrations) Apply(ctx context.Context, db *DB) ([]string, error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("migration lock: %w", err)
	}
	provider, err := m.provider(db, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("applying the migrations: %w", err)
	}
	applied := make([]string, 0, len(results))
	for _, r := range results {
		applied = append(applied, r.Source.Path)
	}
	return applied, nil
}

// applied returns an error as long as a migration is missing.
func (m Migrations) applied(ctx context.Context, db *DB) error {
	provider, err := m.provider(db)
	if err != nil {
		return err
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	if pending {
		return fmt.Errorf("the schema is older than this program: run `%s`", m.Command)
	}
	return nil
}

func (m Migrations) provider(db *DB, opts ...goose.ProviderOption) (*goose.Provider, error) {
	provider, err := goose.NewProvider(goose.DialectPostgres, db.sql, m.Files, opts...)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	return provider, nil
}
