package system

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/test/servers"
)

func (s *system) rolesOf(role string) servers.Roles {
	if role == "order_service" {
		return s.ordersRoles
	}
	return s.notificationsRoles
}

// superuserURL returns the URL of a service's database for the superuser.
func (s *system) superuserURL(role string) string {
	return s.database.URL(strings.Trim(parseURL(s.T, s.rolesOf(role).Owner).Path, "/"))
}

func (s *system) connectTo(url string) *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), url)
	must(s.T, err)
	s.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// execAndRollBack executes statements in a transaction and rolls it back.
func execAndRollBack(t *testing.T, conn *pgx.Conn, statements string) error {
	t.Helper()
	_, err := conn.Exec(t.Context(), "BEGIN")
	must(t, err)
	_, refused := conn.PgConn().Exec(t.Context(), statements).ReadAll()
	_, err = conn.Exec(t.Context(), "ROLLBACK")
	must(t, err)
	return refused
}

func insufficientPrivilege(err error) bool {
	var reason *pgconn.PgError
	return errors.As(err, &reason) && reason.Code == "42501"
}

func parseURL(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u
}
