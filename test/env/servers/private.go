package servers

import (
	"context"
	"os"
	"path/filepath"
	"testing"

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
	if err != nil {
		tb.Fatal(err)
	}
	startUntilCleanup(tb, s, s.folder)
	return s
}

// Standby starts a standby of this primary, which synchronous_standby_names may list by its name.
func Standby(tb testing.TB, primary *PostgresServer, name string) *PostgresServer {
	tb.Helper()
	s, err := NewStandby(tb.Context(), serverFolder(tb), process.WithParent, primary.URL("postgres"), name)
	if err != nil {
		tb.Fatal(err)
	}
	startUntilCleanup(tb, s, s.folder)
	return s
}

// RabbitMQ starts a private RabbitMQ, which the test may stop and kill. The start takes several
// seconds.
func RabbitMQ(tb testing.TB, plugins ...string) *RabbitMQServer {
	tb.Helper()
	s, err := NewRabbitMQ(serverFolder(tb), process.WithParent, plugins...)
	if err != nil {
		tb.Fatal(err)
	}
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
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// serverFolder creates a folder that other users can enter, unlike tb.TempDir: PostgreSQL runs
// as another user when the test runs as root.
func serverFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "test-servers-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			tb.Error(err)
		}
	})
	return folder
}

// OfPackage are private servers that the tests of one package share.
type OfPackage struct {
	Folder   string // which other users can enter, too
	Database *PostgresServer
	Broker   *RabbitMQServer
}

// RunTests starts the servers, calls ready, runs the tests of a package, and stops the servers. It
// is for a TestMain.
func RunTests(m *testing.M, name string, ready func(OfPackage) error) (code int, err error) {
	folder, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	// When the tests run as root, PostgreSQL runs as another user, who must enter the folder.
	if err := os.Chmod(folder, 0o755); err != nil {
		return 0, err
	}
	shared := OfPackage{Folder: folder}
	if shared.Database, err = NewPostgres(filepath.Join(folder, "postgres"), process.WithParent); err != nil {
		return 0, err
	}
	defer func() { _ = shared.Database.Close() }()
	if shared.Broker, err = NewRabbitMQ(filepath.Join(folder, "rabbitmq"), process.WithParent); err != nil {
		return 0, err
	}
	defer func() { _ = shared.Broker.Close() }()
	ctx := context.Background()
	for _, s := range []server{shared.Database, shared.Broker} {
		if err := s.Start(ctx); err != nil {
			return 0, err
		}
	}
	if err := ready(shared); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
