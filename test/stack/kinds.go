package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

const (
	defaultDatabaseServer = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	defaultBroker         = "amqp://guest:guest@127.0.0.1:5672/"

	// privateOnly asks for servers that nobody else uses, so that they may be stopped.
	privateOnly = "PRIVATE_SERVERS"

	probeTimeout = 5 * time.Second
)

// privateServer is a PostgreSQL or RabbitMQ that stack has started.
type privateServer interface {
	Start(context.Context) error
	Stop(context.Context) error
	Close() error
	Running() bool
	URL(inside string) string
}

// kind is one of the two servers that the system needs.
type kind struct {
	name, packageName string
	variable          string // environment variable with the URL of a server to use
	defaultURL        string
	testVariable      string // the variable that the tests read
	home              string // the database or virtual host in a private server's URL
	probe             func(ctx context.Context, url string) (version string, err error)
	open              func(folder string) (privateServer, error)
}

var (
	postgreSQL = kind{
		name: "PostgreSQL", packageName: "postgresql",
		variable: "DATABASE_SERVER_URL", defaultURL: defaultDatabaseServer, testVariable: "TEST_DATABASE_URL",
		home: "postgres", probe: probePostgreSQL,
		open: func(folder string) (privateServer, error) { return servers.NewPostgres(folder, process.Detached) },
	}
	rabbitMQ = kind{
		name: "RabbitMQ", packageName: "rabbitmq-server",
		variable: "AMQP_URL", defaultURL: defaultBroker, testVariable: "TEST_AMQP_URL",
		home: "/", probe: probeRabbitMQ,
		open: func(folder string) (privateServer, error) { return servers.NewRabbitMQ(folder, process.Detached) },
	}
	kinds = []kind{postgreSQL, rabbitMQ}
)

// foldersFor returns the folder of a private server, or the candidates. The last one is for root:
// PostgreSQL then runs as the user postgres, who cannot enter a checkout in /root.
func (s *stack) foldersFor(k kind) []string {
	if folder, recorded := s.state.Private[k.name]; recorded {
		return []string{folder}
	}
	checkout := sha256.Sum256([]byte(s.root))
	return []string{
		s.path(k.packageName),
		fmt.Sprintf("/var/lib/transactional-outbox-%x-%s", checkout[:4], k.packageName),
	}
}

func probePostgreSQL(ctx context.Context, address string) (version string, err error) {
	if u, err := url.Parse(address); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", fmt.Errorf("write it as postgres://user:password@host:port/database")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return version, err
}

func probeRabbitMQ(ctx context.Context, address string) (version string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "amqp" {
		return "", fmt.Errorf("write it as amqp://user:password@host:port/vhost")
	}
	return servers.AMQPVersion(ctx, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5672")))
}
