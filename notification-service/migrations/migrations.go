// Package migrations holds the schema of notification-service: the tables of the library's inbox
// and outbox, one numbered file for each step of its own, and what its role in the database may do.
// `notification-service migrate` applies them.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/inbox"
)

//go:embed 0*.sql
var files embed.FS

//go:embed grants.sql
var grants string

// Schema is the schema of notification-service.
var Schema = postgres.Migrations{
	Libraries: []func(context.Context, *pgxpool.Pool) error{refuseOld, inbox.Migrate, outbox.Migrate},
	Files:     files, Grants: grants, Command: "notification-service migrate",
}

// refuseOld refuses the tables of the versions that kept their e-mails in a table of their own.
func refuseOld(ctx context.Context, pool *pgxpool.Pool) error {
	var old bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass('notifications') IS NOT NULL").Scan(&old); err != nil {
		return fmt.Errorf("looking for old tables: %w", err)
	}
	if old {
		return errors.New("these are the tables of an older notification-service, and this one cannot use them: delete the database (docker compose down -v)")
	}
	return nil
}
