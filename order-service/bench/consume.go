package main

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/migrations"
)

// consumers is how many messages notification-service handles at the same time, by
// default. Bare pgx has as many connections.
const consumers = 8

// measureConsume lets notification-service consume a backlog, with e-mails that go to
// its log, and then bare pgx execute what those messages do to the database.
func (b *bench) measureConsume(ctx context.Context) error {
	for run := range b.Runs {
		progress("consume, run %d of %d: %d messages", run+1, b.Runs, b.Messages)
		if err := b.consumeRun(ctx); err != nil {
			return err
		}
		if err := b.bareConsumeRun(ctx); err != nil {
			return err
		}
	}
	b.samples.add("consume_ratio", b.samples.median("consume_per_s")/b.samples.median("bare_consume_per_s"))
	return nil
}

func (b *bench) consumeRun(ctx context.Context) error {
	d, err := b.newDatabaseOf(ctx, migrations.Files)
	if err != nil {
		return err
	}
	defer d.drop()
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return err
	}
	defer drop()
	if err := b.leaveBacklog(ctx, d, url); err != nil {
		return err
	}
	return b.consumeBacklog(ctx, d, url)
}

// leaveBacklog lets the service declare its queues, and fills them when it has gone.
func (b *bench) leaveBacklog(ctx context.Context, d database, url string) error {
	topic := rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}}}
	err := inSession(ctx, url, func(s *rabbitmq.Session) error { return s.Declare(topic) })
	if err != nil {
		return err
	}
	s, err := b.serve(ctx, notificationService, "serve", d, url)
	if err != nil {
		return err
	}
	_, err = s.logged(ctx, "taking messages")
	s.end() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
	if err != nil {
		return err
	}
	orders, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer orders.drop()
	if err := orders.fill(ctx, b.Messages, "consume", "pending"); err != nil {
		return err
	}
	messages, err := orders.messages(ctx, exchange)
	if err != nil {
		return err
	}
	return inSession(ctx, url, func(s *rabbitmq.Session) error {
		_, err := publishing{channels: 1, window: 500}.publish(s, messages)
		return err
	})
}

const finished = "SELECT count(*) FROM notifications WHERE status IN ('sent', 'superseded')"

// consumeBacklog counts the time from the service's connection to the broker on.
func (b *bench) consumeBacklog(ctx context.Context, d database, url string) error {
	s, err := b.serve(ctx, notificationService, "serve", d, url)
	if err != nil {
		return err
	}
	defer s.end() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
	if err := d.awaitCount(ctx, finished, b.Messages); err != nil {
		return err
	}
	return b.addRun(ctx, s, "taking messages", b.Messages, "consume_per_s", "consumer_rss_mib")
}

// awaitCount asks seldom: each question reads the table.
func (d database) awaitCount(ctx context.Context, query string, want int) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := one[int](ctx, d, query)
		if err != nil || n == want {
			return err
		}
		if n > want {
			return fmt.Errorf("%d of %d", n, want)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
