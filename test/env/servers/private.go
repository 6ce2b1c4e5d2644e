package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/process"
)

// server is a [PostgresServer] or a [RabbitMQServer].
type server interface {
	Start(context.Context) error
	Close() error
}

// WithoutSync is a setting of PostgreSQL. The data outlives SIGKILL, because the kernel has it, and
// not the loss of the machine. Tests need half of the time.
const WithoutSync = "fsync=off"

// Postgres starts a private PostgreSQL, which the test may stop and kill.
func Postgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	s, err := NewPostgres(serverFolder(tb), process.WithParent, WithoutSync)
	check.Must(tb, err)
	startUntilCleanup(tb, s, s.folder)
	return s
}

// Standby starts a standby of this primary, which synchronous_standby_names may list by its name.
func Standby(tb testing.TB, primary *PostgresServer, name string) *PostgresServer {
	tb.Helper()
	s, err := NewStandby(tb.Context(), serverFolder(tb), process.WithParent, primary.URL("postgres"), name)
	check.Must(tb, err)
	startUntilCleanup(tb, s, s.folder)
	return s
}

// PgBouncerFor starts a pooler in front of s for these roles, which connect to their database
// through it.
func PgBouncerFor(tb testing.TB, s *PostgresServer, database string, roles ...string) *PgBouncer {
	tb.Helper()
	b, err := s.NewPgBouncer(tb.Context(), serverFolder(tb), process.WithParent, roles...)
	check.Must(tb, err)
	tb.Cleanup(func() { _ = b.Close() })
	check.Must(tb, b.Start(tb.Context(), database))
	return b
}

// RabbitMQ starts a private RabbitMQ, which the test may stop and kill. The start takes several
// seconds.
func RabbitMQ(tb testing.TB, plugins ...string) *RabbitMQServer {
	tb.Helper()
	s, err := NewRabbitMQ(serverFolder(tb), process.WithParent, plugins...)
	check.Must(tb, err)
	startUntilCleanup(tb, s, s.folder)
	return s
}

func startUntilCleanup(tb testing.TB, s server, f folder) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			tb.Logf("the end of the log of %T:\n%s", s, process.LastLines(f.log()))
		}
	})
	check.Must(tb, s.Start(tb.Context()))
}

// serverFolder creates a folder that other users can enter, unlike tb.TempDir: PostgreSQL runs
// as another user when the test runs as root.
func serverFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "test-servers-")
	check.Must(tb, err)
	tb.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			tb.Error(err)
		}
	})
	return folder
}

// OfPackage are private servers of a program, or those that the tests of one package share.
type OfPackage struct {
	Folder   string // which other users can enter, too
	Database *PostgresServer
	Broker   *RabbitMQServer
}

// OpenForPackage starts both servers in a new folder. The settings are PostgreSQL's.
func OpenForPackage(ctx context.Context, name string, broker process.Lifetime, settings ...string) (p OfPackage, err error) {
	if p.Folder, err = os.MkdirTemp("", name+"-"); err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	// As root, PostgreSQL runs as another user, who must enter the folder.
	if err := os.Chmod(p.Folder, 0o755); err != nil {
		return p, err
	}
	if p.Database, err = NewPostgres(filepath.Join(p.Folder, "postgres"), process.WithParent, settings...); err != nil {
		return p, err
	}
	if p.Broker, err = NewRabbitMQ(filepath.Join(p.Folder, "rabbitmq"), broker); err != nil {
		return p, err
	}
	return p, p.Start(ctx)
}

// Attach returns the servers that another process has opened in this folder. They belong to
// it: do not close them.
func Attach(folder string) (p OfPackage, err error) {
	p.Folder = folder
	if p.Database, err = NewPostgres(filepath.Join(folder, "postgres"), process.WithParent); err != nil {
		return p, err
	}
	p.Broker, err = NewRabbitMQ(filepath.Join(folder, "rabbitmq"), process.Detached)
	if err == nil && (!p.Database.Running() || !p.Broker.Running()) {
		err = fmt.Errorf("no servers run in %s", folder)
	}
	return p, err
}

// Start starts the servers that do not run.
func (p OfPackage) Start(ctx context.Context) error {
	return errors.Join(p.Database.Start(ctx), p.Broker.Start(ctx))
}

// Close ends both, and removes the folder.
func (p OfPackage) Close() error {
	var errs []error
	if p.Broker != nil {
		errs = append(errs, p.Broker.Close())
	}
	if p.Database != nil {
		errs = append(errs, p.Database.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(p.Folder))...)
}

// RunTests starts the servers, calls ready, runs the tests of a package, and stops the servers. It
// is for a TestMain.
func RunTests(m *testing.M, name string, ready func(OfPackage) error) (code int, err error) {
	shared, err := OpenForPackage(context.Background(), name, process.WithParent, WithoutSync)
	if err != nil {
		return 0, err
	}
	defer func() { _ = shared.Close() }()
	if err := ready(shared); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
