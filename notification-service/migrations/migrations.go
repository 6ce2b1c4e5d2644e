// Package migrations holds the schema of notification-service: the tables of the library's inbox
// and outbox, one numbered file for each step of its own, and what its role in the database may do.
// `notification-service migrate` applies them.
package migrations

import (
	"context"
	"embed"

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
	Libraries: []func(context.Context, *pgxpool.Pool) error{inbox.Migrate, outbox.Migrate},
	Files:     files, Grants: grants, Command: "notification-service migrate",
}
