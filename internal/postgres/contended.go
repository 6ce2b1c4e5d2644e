package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Contended reports whether an [Unavailable] error may concern only some rows, while the database
// serves others: a lock timeout, a deadlock, or a transaction that took too long.
func Contended(err error) bool {
	var (
		connect *pgconn.ConnectError
		server  *pgconn.PgError
	)
	if errors.As(err, &connect) {
		return false // without a session, no row is served
	}
	if !errors.As(err, &server) {
		return errors.Is(err, context.DeadlineExceeded)
	}
	return strings.HasPrefix(server.Code, "40") || server.Code == "55P03" || server.Code == "57014"
}
