package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/env/process"
)

// ErrRunning means that a server must be stopped first.
var ErrRunning = errors.New("the server runs")

// NewStandby returns a server in this folder that Start starts as a standby of primary.
// [PostgresServer.CopyFrom] says more.
func NewStandby(ctx context.Context, path string, lifetime process.Lifetime, primary, name string) (*PostgresServer, error) {
	s, err := NewPostgres(path, lifetime)
	if err != nil {
		return nil, err
	}
	return s, s.CopyFrom(ctx, primary, name)
}

// CopyFrom replaces the data by a base backup of a running primary. The next Start starts the
// server as a standby that streams from this URL. The name is its application_name, which the
// primary's synchronous_standby_names may list. The server keeps its port.
func (s *PostgresServer) CopyFrom(ctx context.Context, primary, name string) error {
	if s.Running() {
		return ErrRunning
	}
	source, err := url.Parse(primary)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	return s.copyData(ctx, s.data(), source, name, "--write-recovery-conf")
}

// BackUp makes a base backup of the running server, as it is at the end of this call.
func (s *PostgresServer) BackUp(ctx context.Context) error {
	source, err := url.Parse(s.URL(""))
	if err != nil {
		return err
	}
	return s.copyData(ctx, s.backup(), source, "backup")
}

// Restore replaces the data by the backup. The next Start starts the server as it was then.
func (s *PostgresServer) Restore() error {
	if s.Running() {
		return ErrRunning
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	return os.Rename(s.backup(), s.data())
}

func (s *PostgresServer) backup() string { return s.folder.file("backup") }

// copyData makes a base backup of a running server in a folder.
func (s *PostgresServer) copyData(ctx context.Context, folder string, source *url.URL, name string, flags ...string) error {
	err := s.createData(folder, func(unfinished string) *exec.Cmd {
		flags = append(flags, "--pgdata="+unfinished, "--wal-method=stream", "--checkpoint=fast", "--no-sync",
			"--dbname=host="+source.Hostname()+" port="+source.Port()+" user="+source.User.Username()+" application_name="+name)
		return exec.CommandContext(ctx, filepath.Join(s.binaries, "pg_basebackup"), flags...)
	})
	if err != nil {
		return fmt.Errorf("copy PostgreSQL's data: %w", err)
	}
	return nil
}

// Promote makes a standby the primary, and returns when it takes writes.
func (s *PostgresServer) Promote(ctx context.Context) error {
	return s.Execute(ctx, "postgres", "SELECT pg_promote()")
}

// Synchronous makes commits wait for standbys, by synchronous_standby_names. An empty text ends it.
// It returns when the primary waits for one, so the standbys must run.
func (s *PostgresServer) Synchronous(ctx context.Context, standbys string) error {
	err := s.Execute(ctx, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+standbys+"'", "SELECT pg_reload_conf()")
	if err != nil {
		return err
	}
	return s.await(ctx, `SELECT current_setting('synchronous_standby_names') = '`+standbys+`' AND ('`+standbys+`' = ''
		OR EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')))`)
}

// AwaitStandby returns when a standby with this name has all that this primary has now.
func (s *PostgresServer) AwaitStandby(ctx context.Context, name string) error {
	var now string
	if err := s.query(ctx, "SELECT pg_current_wal_flush_lsn()::text", &now); err != nil {
		return err
	}
	return s.await(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT FROM pg_stat_replication
		WHERE application_name = '%s' AND replay_lsn >= '%s')`, name, now))
}

// await repeats a query until it returns true.
func (s *PostgresServer) await(ctx context.Context, query string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s.server.AwaitReady(ctx, func(ctx context.Context) error {
		yes := false
		if err := s.query(ctx, query, &yes); err != nil || yes {
			return err
		}
		return errors.New(query)
	})
}

// query runs a query on a connection of its own, and reads the first column.
func (s *PostgresServer) query(ctx context.Context, statement string, into any) error {
	return s.in(ctx, "postgres", func(conn *pgx.Conn) error { return conn.QueryRow(ctx, statement).Scan(into) })
}

// Execute executes statements in a database.
func (s *PostgresServer) Execute(ctx context.Context, database string, statements ...string) error {
	return s.in(ctx, database, func(conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%.60s: %w", statement, err)
			}
		}
		return nil
	})
}

// in uses a connection of its own to a database.
func (s *PostgresServer) in(ctx context.Context, database string, use func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return use(conn)
}

// createData lets a program create data in another folder and renames it, so that the folder is
// always complete.
func (s *PostgresServer) createData(folder string, program func(unfinished string) *exec.Cmd) error {
	unfinished := s.folder.file("data.new")
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := changeOwner(unfinished, s.as); err != nil {
		return err
	}
	command := program(unfinished)
	command.Dir, command.SysProcAttr = unfinished, &syscall.SysProcAttr{Credential: s.as}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(command.Path), err, output)
	}
	return os.Rename(unfinished, folder)
}
