package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/env/process"
)

// PgBouncer is a pooler in front of a [PostgresServer], in transaction mode. Clients log in to it
// by SCRAM, and it logs in to the server by SCRAM.
type PgBouncer struct {
	folder   folder
	program  string
	lifetime process.Lifetime
	as       *syscall.Credential // nil unless we are root
	server   *process.Process
	port     int
}

// pgBouncerSettings are those of docs/operations.md. The parameters are those that the services
// set when they connect.
const pgBouncerSettings = `[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = ` + localhost + `
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
max_client_conn = 500
default_pool_size = 20
server_login_retry = 1
ignore_startup_parameters = extra_float_digits, idle_in_transaction_session_timeout, statement_timeout, synchronous_commit, tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count
`

// NewPgBouncer returns a pooler in front of s for these roles. They must have their passwords: it
// copies the server's verifiers. From then on, the server asks these roles for their passwords.
func (s *PostgresServer) NewPgBouncer(ctx context.Context, path string, lifetime process.Lifetime, roles ...string) (*PgBouncer, error) {
	program, err := findBinary("pgbouncer", nil)
	if err != nil {
		return nil, fmt.Errorf("PgBouncer: %w; install the package pgbouncer", err)
	}
	b := &PgBouncer{program: program, lifetime: lifetime}
	if b.folder, err = openFolder(path, &struct{}{}); err != nil {
		return nil, err
	}
	if b.as, err = unprivileged(); err != nil {
		return nil, err
	}
	if b.port, err = takePort(); err != nil {
		return nil, err
	}
	return b, errors.Join(b.configure(ctx, s, roles), s.RequirePasswords(ctx, roles))
}

func (b *PgBouncer) configure(ctx context.Context, s *PostgresServer, roles []string) error {
	target, err := url.Parse(s.URL(""))
	if err != nil {
		return err
	}
	var users strings.Builder
	for _, role := range roles {
		var verifier string
		if err := s.query(ctx, "SELECT rolpassword FROM pg_authid WHERE rolname = '"+role+"'", &verifier); err != nil {
			return err
		}
		fmt.Fprintf(&users, "%q %q\n", role, verifier)
	}
	settings := fmt.Sprintf(pgBouncerSettings, target.Hostname(), target.Port(), b.port, b.folder.file("users"))
	for name, content := range map[string]string{"users": users.String(), "pgbouncer.ini": settings} {
		if err := os.WriteFile(b.folder.file(name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// RequirePasswords makes the server ask these roles for their passwords, by SCRAM.
func (s *PostgresServer) RequirePasswords(ctx context.Context, roles []string) error {
	access := s.folder.file("data/pg_hba.conf")
	content, err := os.ReadFile(access)
	if err != nil {
		return err
	}
	rule := "host all " + strings.Join(roles, ",") + " " + localhost + "/32 scram-sha-256\n"
	if strings.HasPrefix(string(content), rule) {
		return nil
	}
	if err := os.WriteFile(access, append([]byte(rule), content...), 0o600); err != nil {
		return err
	}
	return s.Execute(ctx, "postgres", "SELECT pg_reload_conf()")
}

// Via returns the URL of a database through the pooler.
func (b *PgBouncer) Via(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		panic(err) // the caller has used it
	}
	u.Host = addressOf(b.port)
	return u.String()
}

// Start starts the pooler unless it runs, and waits until this URL of a database answers through
// it.
func (b *PgBouncer) Start(ctx context.Context, database string) (err error) {
	if !b.server.Alive() {
		command := exec.Command(b.program, b.folder.file("pgbouncer.ini"))
		command.SysProcAttr = &syscall.SysProcAttr{Credential: b.as}
		if b.server, err = process.Start(command, b.lifetime, b.folder.log()); err != nil {
			return err
		}
	}
	return awaitStart(ctx, b.server, b.folder, func(ctx context.Context) error {
		config, err := pgx.ParseConfig(b.Via(database))
		if err != nil {
			return err
		}
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// Version returns the version that the program prints.
func (b *PgBouncer) Version(ctx context.Context) string {
	output, _ := exec.CommandContext(ctx, b.program, "--version").Output()
	first, _, _ := strings.Cut(string(output), "\n")
	return first
}

// Kill ends the pooler with SIGKILL.
func (b *PgBouncer) Kill() error { return kill(b.server) }

// Close ends the pooler and releases its port.
func (b *PgBouncer) Close() error {
	defer releasePorts(b.port)
	if !b.server.Alive() {
		return nil
	}
	return b.Kill()
}
