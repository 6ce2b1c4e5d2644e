package servertest

import (
	"context"
	"os"
	"testing"

	"example.com/transactional-outbox/internal/servertest/process"
)

// server is what the two kinds have in common.
type server interface {
	Start(context.Context) error
	Close() error
}

// Postgres starts a PostgreSQL that belongs to this test, which may stop and kill it.
func Postgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	s, err := NewPostgres(serverFolder(tb), process.WithParent)
	if err != nil {
		tb.Fatal(err)
	}
	startFor(tb, s, s.folder)
	return s
}

// RabbitMQ starts a RabbitMQ that belongs to this test, which may stop and kill it. It
// takes several seconds.
func RabbitMQ(tb testing.TB, plugins ...string) *RabbitMQServer {
	tb.Helper()
	s, err := NewRabbitMQ(serverFolder(tb), process.WithParent, plugins...)
	if err != nil {
		tb.Fatal(err)
	}
	startFor(tb, s, s.folder)
	return s
}

func startFor(tb testing.TB, s server, f folder) {
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

// serverFolder is not tb.TempDir, which other users cannot enter: PostgreSQL is another
// user when the test runs as root.
func serverFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "servertest-")
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
