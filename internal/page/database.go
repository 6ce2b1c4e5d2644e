package page

import (
	"context"
	"time"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
)

// The pool of the page is small, and its statements are short. So pages never take from the API or
// the relay what these need, and a page that is slow stops only other pages.
const (
	connections      = 2
	statementTimeout = 2 * time.Second
)

// OpenDatabase opens the pool for the pages. It does not connect.
func OpenDatabase(ctx context.Context, url string) (*postgres.DB, error) {
	return postgres.Open(ctx, url, connections, postgres.StatementTimeout(statementTimeout), postgres.Fresh(settings.Fresh("DATABASE_URL")))
}
