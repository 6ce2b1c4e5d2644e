// Package migrations has the schema of notification-service, one numbered file for each step,
// and the privileges of its database role. `notification-service migrate` applies them.
package migrations

import "embed"

// Files are the migrations, in the order of their numbers.
//
//go:embed 0*.sql
var Files embed.FS

// Grants are the privileges of the application's role.
//
//go:embed grants.sql
var Grants string
