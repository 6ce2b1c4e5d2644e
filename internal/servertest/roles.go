package servertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/jackc/pgx/v5"
)

// Roles are the two ways into a service's database, as URLs.
type Roles struct {
	Owner       string // for its migrations
	Application string // for the service
}

// Provision gives the database at address, where a superuser gets in, the roles of a
// service: those of postgres/roles.sql in the repository at root. Their passwords are
// new each time.
func Provision(ctx context.Context, root, address, service string) (Roles, error) {
	roles, err := fs.ReadFile(os.DirFS(root), "postgres/roles.sql")
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
		return Roles{}, fmt.Errorf("postgres/roles.sql: %w", err)
	}
	return Roles{
		Owner:       as(address, service+"_owner", ownerPassword),
		Application: as(address, service, password),
	}, nil
}

// as is the way to a server for another user. Whoever has connected by it knows that it
// is a URL.
func as(address, user, password string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}
