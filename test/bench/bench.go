package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// bench has what the measurements share: the servers, the programs and the samples.
type bench struct {
	options
	folder   string
	postgres *servers.PostgresServer
	broker   *servers.RabbitMQServer
	samples  samples
	names    int // databases and virtual hosts so far
}

// open builds the services and starts the servers.
func open(ctx context.Context, o options) (b *bench, err error) {
	b = &bench{options: o, samples: samples{}}
	defer func() { //nolint:contextcheck // cleanup must also run after ctx has ended
		if err != nil {
			b.end()
		}
	}()
	if b.folder, err = os.MkdirTemp("", "bench-"); err != nil {
		return b, err
	}
	suite.Progress("building the services, starting PostgreSQL and RabbitMQ in %s", b.folder)
	if err := os.Chmod(b.folder, 0o755); err != nil { //nolint:gosec // as root, PostgreSQL runs as another user
		return b, err
	}
	if err := services.Build(ctx, ".", b.folder); err != nil {
		return b, err
	}
	// Its durability is the default.
	if b.postgres, err = servers.NewPostgres(filepath.Join(b.folder, "postgres"), process.WithParent, "track_commit_timestamp=on"); err != nil {
		return b, err
	}
	if err := b.postgres.Start(ctx); err != nil {
		return b, err
	}
	// Detached: a broker that ends with its parent runs with one scheduler thread only.
	if b.broker, err = servers.NewRabbitMQ(filepath.Join(b.folder, "rabbitmq"), process.Detached); err != nil {
		return b, err
	}
	return b, b.broker.Start(ctx)
}

// executeAsAdmin runs a statement in the database postgres.
func (b *bench) executeAsAdmin(ctx context.Context, statement string) error {
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
	errs = append(errs, os.RemoveAll(b.folder))
	if err := errors.Join(errs...); err != nil {
		suite.Progress("cleaning up: %v", err)
	}
}

// newName returns a new name for a database or virtual host.
func (b *bench) newName() string {
	b.names++
	return fmt.Sprintf("bench%d", b.names)
}

// newVirtualHost returns the URL of a new virtual host. drop deletes it with its queues.
func (b *bench) newVirtualHost(ctx context.Context) (url string, drop func(), err error) {
	name := b.newName()
	drop = func() { _, _ = b.broker.Ctl(context.WithoutCancel(ctx), "delete_vhost", name) } // in the end the broker is deleted as well
	if _, err := b.broker.Ctl(ctx, "add_vhost", name); err != nil {
		return "", nil, err
	}
	if _, err := b.broker.Ctl(ctx, "set_permissions", "-p", name, "guest", ".*", ".*", ".*"); err != nil {
		drop()
		return "", nil, err
	}
	return b.broker.URL(name), drop, nil
}

// exchange is the relay's exchange.
const exchange = "outbox.events"

// declareQueue declares the exchange with one queue for all events.
func declareQueue(ctx context.Context, url string) error {
	topology := rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}},
		Queues:    []rabbitmq.DeclaredQueue{{Name: exchange + ".queue", Bindings: []rabbitmq.Binding{{Exchange: exchange, Key: "order.*"}}}},
	}
	return inSession(ctx, url, func(s *rabbitmq.Session) error { return s.Declare(topology) })
}

// inSession calls use in one session.
func inSession(ctx context.Context, url string, use func(*rabbitmq.Session) error) error {
	used := errors.New("no session with the broker")
	ctx, end := context.WithCancel(ctx)
	defer end()
	kept := rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: url, Name: "bench"}, func(_ context.Context, s *rabbitmq.Session) error {
		defer end()
		used = use(s)
		return used
	})
	return errors.Join(kept, used)
}
