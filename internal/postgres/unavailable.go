package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Unavailable reports whether err says that the database could not do the work
// now, whatever the work was: it is away, starting, stopping, full, or too slow.
// The same work may succeed later.
func Unavailable(err error) bool {
	var (
		connect *pgconn.ConnectError
		network net.Error
		server  *pgconn.PgError
	)
	switch {
	case errors.As(err, &server):
		return unavailableState(server.Code)
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, net.ErrClosed):
		return true
	case errors.Is(err, context.DeadlineExceeded):
		return true
	default:
		return pgconn.SafeToRetry(err) || connectionLost(err)
	}
}

// misconfigured knows what only a change of the settings mends: class 28, the role
// or its password, 3D, the name of the database, and a role that may not connect to it.
func misconfigured(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) &&
		(strings.HasPrefix(server.Code, "28") || strings.HasPrefix(server.Code, "3D")) || notGranted(err)
}

// notGranted knows what a role is refused that lacks a privilege.
func notGranted(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "42501"
}

func connectionLost(err error) bool {
	lost := []error{driver.ErrBadConn, sql.ErrConnDone, pgconn.ErrConnClosed, io.EOF, io.ErrUnexpectedEOF}
	return slices.ContainsFunc(lost, func(e error) bool { return errors.Is(err, e) })
}

// unavailableState knows the classes of SQLSTATE: 08 connection, 40 rolled back
// by the server, 53 resources, 55P03 and 57 operator intervention and timeouts.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func unavailableState(code string) bool {
	for _, class := range []string{"08", "40", "53", "55P03", "57"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}
