// Package migrations holds the schema of notification-service, one numbered file for
// each step, and what its role in the database may do. `notification-service migrate` applies
// them.
package migrations

import "embed"

// Files are the migrations, in the order of their numbers.
//
//go:embed 0*.sql
var Files embed.FS

// Grants says what the application may do with all that.
//
//go:embed grants.sql
var Grants string
