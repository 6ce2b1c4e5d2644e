// Package migrations holds the schema of order-service, one numbered file for
// each step. `order-service migrate` applies them.
package migrations

import "embed"

// Files are the migrations, in the order of their numbers.
//
//go:embed *.sql
var Files embed.FS
