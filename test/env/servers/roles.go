package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"

	"github.com/jackc/pgx/v5"
)

// Roles are the URLs of a service's database for its two roles.
type Roles struct {
	Owner       string // for its migrations
	Application string // for the service
}

// CreateRoles creates the roles of a service in a database, by deploy/postgres/roles.sql of the
// repository at root. The address has a superuser. The passwords are new for each call.
func CreateRoles(ctx context.Context, root, address, service string) (Roles, error) {
	roles, err := fs.ReadFile(os.DirFS(root), "deploy/postgres/roles.sql")
	if err != nil {
		return Roles{}, err
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return Roles{}, err
	}
	ownerPassword, password := rand.Text(), rand.Text()
	for name, value := range map[string]string{"service": service, "owner_password": ownerPassword, "password": password} {
		config.RuntimeParams["provision."+name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return Roles{}, err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, string(roles)); err != nil {
		return Roles{}, fmt.Errorf("deploy/postgres/roles.sql: %w", err)
	}
	return Roles{
		Owner:       withUser(address, service+"_owner", ownerPassword),
		Application: withUser(address, service, password),
	}, nil
}

// CreateFor creates an empty database with the roles of a service. Root is the repository.
func (s *PostgresServer) CreateFor(ctx context.Context, root, name, service string) (Roles, error) {
	return s.CopyFor(ctx, root, "template1", name, service)
}

// CopyFor creates a copy of a database, with the roles of a service.
func (s *PostgresServer) CopyFor(ctx context.Context, root, template, name, service string) (Roles, error) {
	if err := s.Execute(ctx, "postgres", "CREATE DATABASE "+identifier(name)+" TEMPLATE "+identifier(template)); err != nil {
		return Roles{}, err
	}
	return CreateRoles(ctx, root, s.URL(name), service)
}
