package main

import (
	"context"
	"errors"
	"fmt"

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
	private, err := servers.OpenForPackage(ctx, "bench", process.Detached, "track_commit_timestamp=on")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, OfPackage: private, samples: samples{}}
	if err := services.Build(ctx, ".", b.Folder); err != nil {
		return nil, errors.Join(err, b.Close()) //nolint:contextcheck // cleanup must also run after ctx has ended
	}
	return b, nil
}

// newName returns a new name for a database or virtual host.
func (b *bench) newName() string {
	b.names++
	return fmt.Sprintf("bench%d", b.names)
}

// newVirtualHost returns the URL of a new virtual host. drop deletes it with its queues.
func (b *bench) newVirtualHost(ctx context.Context) (url string, drop func(), err error) {
	name := b.newName()
	drop = func() { _, _ = b.Broker.Ctl(context.WithoutCancel(ctx), "delete_vhost", name) } // in the end the broker is deleted as well
	if _, err := b.Broker.Ctl(ctx, "add_vhost", name); err != nil {
		return "", nil, err
	}
	if _, err := b.Broker.Ctl(ctx, "set_permissions", "-p", name, "guest", ".*", ".*", ".*"); err != nil {
		drop()
		return "", nil, err
	}
	return b.Broker.URL(name), drop, nil
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
