package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/internal/servertest/process"
)

// bench is what the measurements share: the servers, the program, and a place for
// what they find.
type bench struct {
	options
	folder    string
	postgres  *servertest.PostgresServer
	broker    *servertest.RabbitMQServer
	collector *httptest.Server
	samples   samples
	names     int // of databases and virtual hosts, so far
}

// start builds the services and starts the servers.
func start(ctx context.Context, o options) (b *bench, err error) {
	b = &bench{options: o, samples: samples{}, collector: httptest.NewServer(http.HandlerFunc(drop))}
	defer func() { //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
		if err != nil {
			b.end()
		}
	}()
	if b.folder, err = os.MkdirTemp("", "bench-"); err != nil {
		return b, err
	}
	progress("building the services, starting PostgreSQL and RabbitMQ in %s", b.folder)
	if err := os.Chmod(b.folder, 0o755); err != nil { //nolint:gosec // PostgreSQL is another user when we are root
		return b, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", b.folder+"/", "./"+orderService, "./"+notificationService) //nolint:gosec // a folder of our own
	if output, err := build.CombinedOutput(); err != nil {
		return b, fmt.Errorf("building the services: %w\n%s", err, output)
	}
	if err := b.startPostgres(ctx); err != nil {
		return b, err
	}
	// Detached, because a broker that ends with its parent is a test's: it has one
	// thread only.
	if b.broker, err = servertest.NewRabbitMQ(filepath.Join(b.folder, "rabbitmq"), process.Detached); err != nil {
		return b, err
	}
	return b, b.broker.Start(ctx)
}

// startPostgres leaves every setting of durability as it is, and lets the server keep
// the time of each commit, which it does from its second start on.
func (b *bench) startPostgres(ctx context.Context) (err error) {
	if b.postgres, err = servertest.NewPostgres(filepath.Join(b.folder, "postgres"), process.WithParent); err != nil {
		return err
	}
	if err := b.postgres.Start(ctx); err != nil {
		return err
	}
	if err := b.administer(ctx, "ALTER SYSTEM SET track_commit_timestamp = on"); err != nil {
		return err
	}
	if err := b.postgres.Stop(ctx); err != nil {
		return err
	}
	return b.postgres.Start(ctx)
}

// administer runs a statement that stands outside of any database of ours.
func (b *bench) administer(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, b.postgres.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

// end stops the servers and removes everything.
func (b *bench) end() {
	var errs []error
	if b.broker != nil {
		errs = append(errs, b.broker.Close())
	}
	if b.postgres != nil {
		errs = append(errs, b.postgres.Close())
	}
	b.collector.Close()
	errs = append(errs, os.RemoveAll(b.folder))
	if err := errors.Join(errs...); err != nil {
		progress("cleaning up: %v", err)
	}
}

// name returns one that no database or virtual host has.
func (b *bench) name() string {
	b.names++
	return fmt.Sprintf("bench%d", b.names)
}

// drop takes traces as a collector does, and forgets them.
func drop(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
}
