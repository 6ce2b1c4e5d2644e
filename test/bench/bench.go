package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// bench has what the measurements share: the servers, the programs and the samples.
type bench struct {
	options
	servers.OfPackage
	samples samples
	names   int // databases and virtual hosts so far
}

// open starts the servers and builds the services. PostgreSQL's durability is the default. The
// broker is detached: one that ends with its parent runs with one scheduler thread only.
func open(ctx context.Context, o options) (*bench, error) {
	suite.Progress("starting PostgreSQL and RabbitMQ, building the services")
	b := &bench{options: o, samples: samples{}}
	var err error
	if o.ServersFolder == "" {
		b.OfPackage, err = servers.OpenForPackage(ctx, "bench", process.Detached, "track_commit_timestamp=on")
	} else {
		b.OfPackage, err = servers.Attach(o.ServersFolder)
	}
	if err != nil {
		return nil, err
	}
	if err := services.Build(ctx, ".", programs); err != nil {
		return nil, errors.Join(err, b.Close()) //nolint:contextcheck // cleanup must also run after ctx has ended
	}
	return b, nil
}

// programs is the folder of the services, which is kept: go links only what has changed.
const programs = "build/services"

// Close ends the servers that open has started.
func (b *bench) Close() error {
	if b.ServersFolder != "" {
		return nil
	}
	return b.OfPackage.Close()
}

// newName returns a new name for a database or a log. Two benches may use the same servers.
func (b *bench) newName() string {
	b.names++
	return fmt.Sprintf("bench%d_%d", os.Getpid(), b.names)
}

// forCleanup bounds what must also run after ctx has ended.
func forCleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}

// newVirtualHost returns the URL of a new virtual host. drop deletes it with its queues.
func (b *bench) newVirtualHost(ctx context.Context) (url string, drop func(), err error) {
	name, err := b.Broker.NewVhost(ctx, ".")
	drop = func() {
		ctx, end := forCleanup(ctx)
		defer end()
		_, _ = b.Broker.Ctl(ctx, "delete_vhost", name) // in the end the broker is deleted as well
	}
	return b.Broker.URL(name), drop, err
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

// serve starts a command of a service with additional settings, and returns when it has logged a
// message.
func (b *bench) serve(ctx context.Context, name, command, message string, d database, settings ...string) (*services.Process, error) {
	settings = append([]string{"DATABASE_URL=" + d.url, "AMQP_URL=" + d.broker}, settings...)
	s, err := services.Start(filepath.Join(programs, name), command, filepath.Join(b.Folder, b.newName()+".log"), settings...)
	if err != nil {
		return s, err
	}
	if _, err := s.Await(ctx, message); err != nil {
		end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
		return s, err
	}
	return s, nil
}

// end sends SIGTERM and waits for the end of the process.
func end(s *services.Process) {
	if _, err := s.Stop(context.Background()); err != nil {
		suite.Progress("%v", err)
	}
}
