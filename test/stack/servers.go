package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
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
	probe             func(ctx context.Context, url string) error
	open              func(folder string, postgresSettings []string) (privateServer, error)
}

var (
	postgreSQL = kind{
		name: "PostgreSQL", packageName: "postgresql",
		variable: "DATABASE_SERVER_URL", defaultURL: defaultDatabaseServer, testVariable: "TEST_DATABASE_URL",
		home: "postgres", probe: probePostgreSQL,
		open: func(folder string, settings []string) (privateServer, error) {
			return servers.NewPostgres(folder, process.Detached, settings...)
		},
	}
	rabbitMQ = kind{
		name: "RabbitMQ", packageName: "rabbitmq-server",
		variable: "AMQP_URL", defaultURL: defaultBroker, testVariable: "TEST_AMQP_URL",
		home: "/", probe: probeRabbitMQ,
		open: func(folder string, _ []string) (privateServer, error) {
			return servers.NewRabbitMQ(folder, process.Detached)
		},
	}
	kinds = []kind{postgreSQL, rabbitMQ}
)

func probePostgreSQL(ctx context.Context, address string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return fmt.Errorf("write it as postgres://user:password@host:port/database")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func probeRabbitMQ(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "amqp" {
		return fmt.Errorf("write it as amqp://user:password@host:port/vhost")
	}
	return servers.AMQPAnswers(ctx, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5672")))
}

// servers prints shell commands that export the URLs of PostgreSQL and RabbitMQ for tests. It prints
// both or none, because eval in a shell would not notice that the second one failed.
func (s *stack) servers(ctx context.Context, packages []string) error {
	s.postgresSettings = []string{servers.WithoutSync}
	addresses, err := s.provide(ctx, packages...)
	if err != nil {
		return err
	}
	if err := s.save(); err != nil {
		return err
	}
	for _, k := range kinds {
		_, err = fmt.Fprintf(s.out, "export %s=%s\n", k.testVariable, shellQuoted(addresses[k.name]))
	}
	return err
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// provide returns the URLs of running servers by their kind. What is neither running nor installed is
// installed, with these packages, all of it at once, so that a person is asked only once.
func (s *stack) provide(ctx context.Context, packages ...string) (addresses map[string]string, err error) {
	addresses, missing, err := s.findOrStart(ctx)
	missing = append(missing, packages...)
	if err != nil || len(missing) == 0 {
		return addresses, err
	}
	if err := s.install(ctx, missing...); err != nil {
		return nil, err
	}
	addresses, missing, err = s.findOrStart(ctx) // the package may have started a server
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s is installed, and its programs are not found", missing[0])
	}
	return addresses, err
}

// findOrStart returns the servers that run now, and the packages of those that are not installed.
func (s *stack) findOrStart(ctx context.Context) (addresses map[string]string, missing []string, err error) {
	addresses = map[string]string{}
	for _, k := range kinds {
		address := s.find(ctx, k)
		if address == "" {
			address, err = s.startPrivate(ctx, k)
		}
		if errors.Is(err, servers.ErrNotInstalled) {
			s.logf("%s is neither running nor installed: set %s to one that runs, or install it", k.name, k.variable)
			missing, err = append(missing, k.packageName), nil
		}
		if err != nil {
			return nil, nil, err
		}
		addresses[k.name] = address
	}
	return addresses, missing, nil
}

// find returns the URL of the configured server if it answers, else "".
func (s *stack) find(ctx context.Context, k kind) string {
	if os.Getenv(privateOnly) != "" {
		return ""
	}
	address := cmp.Or(os.Getenv(k.variable), k.defaultURL)
	if err := k.probe(ctx, address); err != nil {
		s.logf("%s at %s cannot be used: %v", k.name, redacted(address), err)
		return ""
	}
	s.logf("%s answers at %s", k.name, redacted(address))
	return address
}

// startPrivate starts this checkout's private server, if it is not running. Its second folder is for
// root: PostgreSQL then runs as the user postgres, who cannot enter a checkout in /root.
func (s *stack) startPrivate(ctx context.Context, k kind) (address string, err error) {
	checkout := sha256.Sum256([]byte(s.root))
	folders := []string{
		s.path(k.packageName),
		fmt.Sprintf("/var/lib/transactional-outbox-%x-%s", checkout[:4], k.packageName),
	}
	if folder, recorded := s.state.Private[k.name]; recorded {
		folders = []string{folder}
	}
	for _, folder := range folders {
		address, err = s.startIn(ctx, folder, k)
		if !errors.Is(err, servers.ErrUnreachable) {
			return address, err
		}
		delete(s.state.Private, k.name)
		s.logf("%v", err)
	}
	return "", err
}

func (s *stack) startIn(ctx context.Context, folder string, k kind) (address string, err error) {
	server, err := k.open(folder, s.postgresSettings)
	if err != nil {
		return "", err
	}
	address = server.URL(k.home)
	if server.Running() {
		s.logf("a private %s runs at %s", k.name, redacted(address))
	} else {
		s.logf("starting a private %s at %s, in %s", k.name, redacted(address), folder)
	}
	// Before the start, so that down also stops a server that does not become ready.
	s.state.Private[k.name] = folder
	if err := s.save(); err != nil {
		return "", err
	}
	return address, server.Start(ctx)
}

// stopPrivate stops a private server, and kills it after stopTimeout.
func (s *stack) stopPrivate(ctx context.Context, k kind) error {
	folder, recorded := s.state.Private[k.name]
	if !recorded {
		return nil
	}
	server, err := k.open(folder, nil)
	if err != nil {
		return err
	}
	running := server.Running()
	patient, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := server.Stop(patient); ctx.Err() != nil {
		return ctx.Err() // interrupted: do not kill it
	} else if err != nil {
		s.logf("the private %s did not end within %s: killing it", k.name, stopTimeout)
	}
	if err := server.Close(); err != nil {
		return err
	}
	if running {
		s.logf("stopped the private %s; its data stays in %s", k.name, folder)
	}
	return nil
}

func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an invalid URL"
	}
	return u.Redacted()
}
