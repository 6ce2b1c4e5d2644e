package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrations are the schema of one service.
type Migrations struct {
	Libraries []func(context.Context, *pgxpool.Pool) error // make the tables of libraries, before the files
	Files     fs.FS                                        // the numbered .sql files
	Grants    string                                       // for the role of the application: one statement that may be repeated
	Command   string                                       // applies all this; for the hint in an error
}

// Migrate waits until the database at url answers, applies the missing migrations, and logs which
// files it applied. It does not wait if the password, the role or the database name is wrong.
func (m Migrations) Migrate(ctx context.Context, url string) error {
	db, err := Open(ctx, url, migrationConns)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.wait(ctx, db.Ping, isMisconfigured); err != nil {
		return err
	}
	applied, err := m.Apply(ctx, db)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "the schema is up to date", "applied", applied)
	return nil
}

// migrationConns is one connection for the lock and one for the migrations.
const migrationConns = 2

// grantTimeout limits the grants, which may wait for the grants of other replicas.
const grantTimeout = time.Minute

// Apply brings the schema and the grants up to date, and returns the names of the files that it
// applied. Replicas may start together: one has a session lock and applies the migrations. The
// others wait for the lock, and then nothing is left to do.
func (m Migrations) Apply(ctx context.Context, db *DB) ([]string, error) {
	for _, migrate := range m.Libraries {
		if err := migrate(ctx, db.pool); err != nil {
			return nil, err
		}
	}
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

// grant grants at each start, because the role may have been created after the files were applied.
// A lock makes replicas take turns: PostgreSQL refuses two grants that change the same rows of
// the catalogue at the same time.
func (m Migrations) grant(ctx context.Context, db *DB) error {
	if m.Grants == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('grants'))"); err != nil {
			return fmt.Errorf("waiting for others who grant: %w", err)
		}
		_, err := tx.Exec(ctx, m.Grants)
		return err
	})
	if err != nil {
		return fmt.Errorf("granting what the application may do: %w", err)
	}
	return nil
}

// applied returns an error if a migration is missing.
func (m Migrations) applied(ctx context.Context, db *DB) error {
	provider, err := m.provider(db)
	if err != nil {
		return err
	}
	pending, err := provider.HasPending(ctx)
	if isPermissionDenied(err) {
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
