// Package migrations holds the schema of order-service: the outbox's tables, which the library
// makes, one numbered file for each step of its own, and what its role in the database may do.
// `order-service migrate` applies them.
package migrations

import (
	"context"
	"embed"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox"
)

//go:embed 0*.sql
var files embed.FS

//go:embed grants.sql
var grants string

// Schema is the schema of order-service.
var Schema = postgres.Migrations{
	Libraries: []func(context.Context, *pgxpool.Pool) error{outbox.Migrate},
	Files:     files, Grants: grants, Command: "order-service migrate",
}
