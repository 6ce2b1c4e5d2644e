package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/test/servers"
)

// PostgreSQL's error codes.
const (
	duplicateDatabase     = "42P04"
	insufficientPrivilege = "42501"
)

// createDatabase creates a database if it does not exist, and returns its URL.
func (s *stack) createDatabase(ctx context.Context, server, name string) (string, error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var refused *pgconn.PgError
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	switch {
	case err == nil:
		s.logf("created the database %s", name)
	case errors.As(err, &refused) && refused.Code == duplicateDatabase:
		s.logf("the database %s exists already", name)
	default:
		return "", err
	}
	return withDatabase(server, name)
}

// provisionDatabase creates the roles of a service's database. If our user may not create roles,
// the service uses our user.
func (s *stack) provisionDatabase(ctx context.Context, svc service, address string) (servers.Roles, error) {
	roles, err := servers.CreateRoles(ctx, s.root, address, svc.database)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == insufficientPrivilege {
		s.logf("no roles for %s, because this user may not create any: the service owns its tables and could change them", svc.name)
		return servers.Roles{Owner: address, Application: address}, nil
	}
	return roles, err
}

func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}
