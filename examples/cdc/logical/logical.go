// Package logical starts a PostgreSQL server with wal_level=logical.
package logical

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// Postgres starts a private server in the folder, with wal_level=logical and these parameters. It
// starts it twice: they need a restart.
func Postgres(ctx context.Context, folder string, parameters map[string]string) (*servers.PostgresServer, error) {
	s, err := servers.NewPostgres(folder, process.WithParent)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := Restart(ctx, s, parameters); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Restart restarts a server with wal_level=logical, unless the parameters have another one.
func Restart(ctx context.Context, s *servers.PostgresServer, parameters map[string]string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	all := map[string]string{"wal_level": "logical"}
	maps.Copy(all, parameters)
	for name, value := range all {
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value)); err != nil {
			return err
		}
	}
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.Start(ctx)
}
