package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

const (
	readyTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
)

// service is one of the two services.
type service struct {
	name     string
	database string
	api      string // address of its API; "" if it has none
	ops      string
}

var services = []service{
	{name: "order-service", database: "order_service", api: "127.0.0.1:4000", ops: "127.0.0.1:4100"},
	{name: "notification-service", database: "notification_service", ops: "127.0.0.1:4101"},
}

// program returns a command of the service's program with its configuration. It also gets the
// caller's environment.
func (s *stack) program(ctx context.Context, svc service, databaseURL, argument string) *exec.Cmd {
	broker := s.state.Servers[rabbitMQ.name]
	if _, private := s.state.Private[rabbitMQ.name]; private {
		broker = servers.BrokerURLFor(svc.name, broker)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "build", "bin", svc.name), argument)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(),
		"APP_ENV=demo",
		"DATABASE_URL="+databaseURL,
		"AMQP_URL="+broker,
		"OPS_ADDR="+svc.ops,
	)
	if svc.api != "" {
		cmd.Env = append(cmd.Env, "HTTP_ADDR="+svc.api)
	}
	return cmd
}

func (s *stack) logPath(svc service) string { return s.path(svc.name + ".log") }

// requireFree returns an error if another process listens on one of the service's addresses.
func (svc service) requireFree() error {
	for _, address := range []string{svc.api, svc.ops} {
		if address == "" {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			_, port, _ := net.SplitHostPort(address)
			return fmt.Errorf("%s needs %s: %w; stop the process that uses it (lsof -i :%s shows it), and run up again",
				svc.name, address, err, port)
		}
		_ = listener.Close()
	}
	return nil
}

// startService prepares the database and starts the service, detached.
func (s *stack) startService(ctx context.Context, svc service) (*process.Process, error) {
	roles, err := s.createDatabase(ctx, s.state.Servers[postgreSQL.name], svc.database)
	if err != nil {
		return nil, fmt.Errorf("create the database %s: %w", svc.database, err)
	}
	if output, err := s.program(ctx, svc, roles.Owner, "migrate").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s migrate: %w:\n%s", svc.name, err, output)
	}
	// The service must not end with ctx, which ends with this program.
	serve := s.program(context.WithoutCancel(ctx), svc, roles.Application, "serve")
	p, err := process.Start(serve, process.Detached, s.logPath(svc))
	if err != nil {
		return nil, err
	}
	s.state.Services[svc.name], s.state.Databases[svc.name] = p.ID, roles.Application
	return p, s.save()
}

// duplicateDatabase is PostgreSQL's error code.
const duplicateDatabase = "42P04"

// createDatabase creates a database and its roles, if they do not exist.
func (s *stack) createDatabase(ctx context.Context, server, name string) (servers.Roles, error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return servers.Roles{}, err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	refused, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		s.logf("created the database %s", name)
	case refused != nil && refused.Code == duplicateDatabase:
		s.logf("the database %s exists already", name)
	default:
		return servers.Roles{}, err
	}
	address, err := withDatabase(server, name)
	if err != nil {
		return servers.Roles{}, err
	}
	return servers.CreateRoles(ctx, s.root, address, name)
}

func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// awaitReady waits until /readyz of the service answers 200.
func (s *stack) awaitReady(ctx context.Context, svc service, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.AwaitReady(ctx, svc.probe); err != nil {
		return fmt.Errorf("%s did not become ready: %w; the end of %s:\n%s\n"+
			"fix the error and run up again, or run down",
			svc.name, err, s.logPath(svc), process.LastLines(s.logPath(svc)))
	}
	s.logf("%s is ready: http://%s/readyz (process %d, log %s)", svc.name, svc.ops, p.PID, s.logPath(svc))
	return nil
}

func (svc service) probe(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+svc.ops+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}

func (s *stack) stopService(ctx context.Context, svc service) error {
	p := process.Find(s.state.Services[svc.name])
	if p == nil {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := p.End(patient, syscall.SIGTERM); err == nil {
		s.logf("stopped %s (process %d)", svc.name, p.PID)
		return nil
	}
	if ctx.Err() != nil { // interrupted: do not kill the service
		return ctx.Err()
	}
	s.logf("%s (process %d) did not end within %s of SIGTERM: killing it", svc.name, p.PID, stopTimeout)
	return p.End(ctx, syscall.SIGKILL)
}
