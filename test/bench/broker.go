package main

import (
	"context"
	"errors"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

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

// boundQueue returns a topic exchange with one queue for all events.
func boundQueue() rabbitmq.Topology {
	return rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}},
		Queues:    []rabbitmq.DeclaredQueue{{Name: exchange + ".queue", Bindings: []rabbitmq.Binding{{Exchange: exchange, Key: "order.*"}}}},
	}
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
