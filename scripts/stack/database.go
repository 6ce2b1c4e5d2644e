package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/internal/servertest"
)

// PostgreSQL's codes.
const (
	duplicateDatabase     = "42P04"
	insufficientPrivilege = "42501"
)

// createDatabase returns the URL of a database on this server, which may exist already.
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
		s.say("created the database %s", name)
	case errors.As(err, &refused) && refused.Code == duplicateDatabase:
		s.say("the database %s exists already", name)
	default:
		return "", err
	}
	return withDatabase(server, name)
}

// provisionDatabase gives a service's database its roles. A server that was only found may
// let us make databases and no roles: there, all is done as the user that we have.
func (s *stack) provisionDatabase(ctx context.Context, svc service, address string) (servertest.Roles, error) {
	roles, err := servertest.Provision(ctx, s.root, address, svc.database)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == insufficientPrivilege {
		s.say("no roles for %s, since this user may make none: it owns its tables and could change them", svc.name)
		return servertest.Roles{Owner: address, Application: address}, nil
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
