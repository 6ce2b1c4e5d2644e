package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const duplicateDatabase = "42P04" // PostgreSQL's code for it

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

func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}
