package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrations are the schema of one service: the numbered .sql files, what the role of
// the application may do with it, and the name of the command that applies them, for
// the hint in an error.
type Migrations struct {
	Files   fs.FS
	Grants  string // one statement; it may be repeated
	Command string
}

// Migrate waits for the database at url to answer, applies what is missing of m,
// and logs each file that it applied. A wrong password, role or database name is
// an error at once.
func (m Migrations) Migrate(ctx context.Context, url string) error {
	db, err := Open(ctx, url, migrationConns, TxTimeout(migrationTimeout))
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

// migrationTimeout is for the grants, which may wait for those of other replicas.
const migrationTimeout = time.Minute

// Apply brings the schema and the grants up to date, and returns the names of the files
// that it applied. A session lock lets replicas start together: one applies, the others
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
	return applied, m.grant(ctx, db)
}

// grant grants each time: the role may have come after the files. Two at once would
// change the same rows of the catalogue, which PostgreSQL refuses.
func (m Migrations) grant(ctx context.Context, db *DB) error {
	if m.Grants == "" {
		return nil
	}
	err := db.InTx(ctx, func(tx *Tx) error {
		if err := tx.Write("waiting for others who grant", "SELECT pg_advisory_xact_lock(hashtext('grants'))", nil); err != nil {
			return err
		}
		return tx.Write("granting", m.Grants, nil)
	})
	if err != nil {
		return fmt.Errorf("granting what the application may do: %w", err)
	}
	return nil
}

// applied returns an error as long as a migration is missing.
func (m Migrations) applied(ctx context.Context, db *DB) error {
	provider, err := m.provider(db)
	if err != nil {
		return err
	}
	pending, err := provider.HasPending(ctx)
	if notGranted(err) {
		return fmt.Errorf("this role may not read the schema's version: run `%s` as the owner of the database: %w", m.Command, err)
	}
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
