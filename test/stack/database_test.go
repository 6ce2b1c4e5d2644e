package main

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestWithoutTheRightToCreateRolesOurUserIsUsed uses a role that may only create databases, as some
// providers have.
func TestWithoutTheRightToCreateRolesOurUserIsUsed(t *testing.T) {
	t.Setenv(postgreSQL.variable, os.Getenv(postgreSQL.testVariable))
	s := newStack(t)
	s.root = "../.."
	server := s.find(shortContext(t), postgreSQL)
	name := "stack_" + strings.ToLower(rand.Text())
	administer(t, server, "CREATE ROLE "+name+" LOGIN CREATEDB PASSWORD '"+name+"'")
	t.Cleanup(func() {
		administer(t, server, "DROP DATABASE IF EXISTS "+name)
		administer(t, server, "DROP ROLE "+name)
	})
	u, err := url.Parse(server)
	must(t, err)
	u.User = url.UserPassword(name, name)
	address, err := s.createDatabase(shortContext(t), u.String(), name)
	must(t, err)
	roles, err := s.provisionDatabase(shortContext(t), services[0], address)
	must(t, err)
	if roles.Owner != address || roles.Application != address {
		t.Errorf("the roles are %+v, want our user", roles)
	}
}

func administer(t *testing.T, server, statement string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, server)
	must(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	must(t, err)
}
