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

// Unavailable reports whether err says that the database could not do any work now: it is
// unreachable, starting, stopping, read-only, full, or too slow, or it refuses the login. The same
// work may succeed later.
func Unavailable(err error) bool {
	var (
		connect *pgconn.ConnectError
		network net.Error
		server  *pgconn.PgError
	)
	switch {
	case errors.As(err, &connect): // whatever the server has answered: there is no session
		return true
	case errors.As(err, &server):
		return unavailableState(server.Code)
	case errors.As(err, &network), errors.Is(err, net.ErrClosed):
		return true
	case errors.Is(err, context.DeadlineExceeded):
		return true
	default:
		return pgconn.SafeToRetry(err) || connectionLost(err)
	}
}

// isMisconfigured reports whether only other settings can help: the role or its password is wrong
// (class 28), the database does not exist (3D), or the role may not connect to it.
func isMisconfigured(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) &&
		(strings.HasPrefix(server.Code, "28") || strings.HasPrefix(server.Code, "3D")) || isPermissionDenied(err)
}

// isPermissionDenied reports whether the role lacks a privilege.
func isPermissionDenied(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "42501"
}

func connectionLost(err error) bool {
	lost := []error{driver.ErrBadConn, sql.ErrConnDone, pgconn.ErrConnClosed, io.EOF, io.ErrUnexpectedEOF}
	return slices.ContainsFunc(lost, func(e error) bool { return errors.Is(err, e) })
}

// unavailableStates are whole classes of SQLSTATE, and single states of other classes.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var unavailableStates = []string{
	"08",             // the connection
	readOnly,         // after a failover, this is no longer the primary
	"25P03", "25P04", // the server ended a transaction that was idle, or took too long
	"28", "3D", // the login, the database: a pooler may answer so to any statement
	"40",    // rolled back by the server
	"53",    // resources: connections, memory, a full disk
	"55P03", // a lock was not free in time
	"57",    // an operator, a timeout, a start or a shutdown
}

func unavailableState(code string) bool {
	return slices.ContainsFunc(unavailableStates, func(state string) bool { return strings.HasPrefix(code, state) })
}
