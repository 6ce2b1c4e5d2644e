package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/chaos/mailserver"
	"example.com/transactional-outbox/test/servicelog"
)

// consumers is the default of CONSUMER_WORKERS. Bare pgx uses as many connections.
const consumers = 8

// measureConsume times notification-service on a backlog: with e-mails written to its log, and with
// a mail server. For comparison, bare pgx executes the same statements, message by message and in
// batches.
func (b *bench) measureConsume(ctx context.Context) error {
	for run := range b.Runs {
		progress("consume, run %d of %d: %d messages", run+1, b.Runs, b.Messages)
		for _, measure := range []func(context.Context) error{
			b.consumeToLog, b.bareConsumeRun, b.bareBatchRun, b.consumeToMailServer,
		} {
			if err := measure(ctx); err != nil {
				return err
			}
		}
	}
	consumed := b.samples.median("consume_per_s")
	b.samples.add("consume_ratio", consumed/b.samples.median("bare_consume_per_s"))
	b.samples.add("consume_batch_ratio", consumed/b.samples.median("bare_batch_per_s"))
	return nil
}

func (b *bench) consumeToLog(ctx context.Context) error {
	return b.consumeRun(ctx, "consume_per_s", "consumer_rss_mib")
}

// mailDelay is how long the mail server takes for each e-mail.
const mailDelay = 5 * time.Millisecond

// consumeToMailServer also adds the rate that the SMTP connections can carry at most.
func (b *bench) consumeToMailServer(ctx context.Context) error {
	server, err := mailserver.Open()
	if err != nil {
		return err
	}
	defer server.Close()
	server.SetFault(mailserver.Fault{RcptDelay: mailDelay})
	b.samples.add("smtp_limit_per_s", consumers/mailDelay.Seconds())
	return b.consumeRun(ctx, "consume_smtp_per_s", "consumer_smtp_rss_mib", "SMTP_URL=smtp://"+server.Address())
}

// consumeRun adds the rate and the resident memory to the samples with these keys.
func (b *bench) consumeRun(ctx context.Context, rate, rss string, environ ...string) error {
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		last, err := b.prepareBacklog(ctx, d)
		if err != nil {
			return err
		}
		return b.consumeBacklog(ctx, d, last, rate, rss, environ...)
	})
}

// prepareBacklog starts the service to declare its queues, stops it, and fills the queue. It
// returns the id of the last message.
func (b *bench) prepareBacklog(ctx context.Context, d database) (last string, err error) {
	topic := rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}}}
	err = inSession(ctx, d.broker, func(s *rabbitmq.Session) error { return s.Declare(topic) })
	if err != nil {
		return "", err
	}
	s, err := b.serve(ctx, notificationService, "serve", d, d.broker)
	if err != nil {
		return "", err
	}
	_, err = s.logged(ctx, servicelog.TakingMessages)
	s.end() //nolint:contextcheck // the service must also end after ctx has ended
	if err != nil {
		return "", err
	}
	orders, err := b.newDatabase(ctx)
	if err != nil {
		return "", err
	}
	defer orders.drop()
	if err := orders.fill(ctx, b.Messages, "consume"); err != nil {
		return "", err
	}
	messages, err := orders.messages(ctx, exchange)
	if err != nil {
		return "", err
	}
	return messages[len(messages)-1].ID, inSession(ctx, d.broker, func(s *rabbitmq.Session) error {
		_, err := publishing{channels: 1, window: 500}.publish(s, messages)
		return err
	})
}

const finished = "SELECT count(*) FROM notifications WHERE status IN ('sent', 'superseded')"

// consumeBacklog measures from the service's connection to the broker on.
func (b *bench) consumeBacklog(ctx context.Context, d database, last, rate, rss string, environ ...string) error {
	s, err := b.serve(ctx, notificationService, "serve", d, d.broker, environ...)
	if err != nil {
		return err
	}
	defer s.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	before := usedCPU()
	// The last message first, by its key: counting all of them reads the table.
	if err := d.awaitCount(ctx, finished+" AND message_id = $1", 1, last); err != nil {
		return err
	}
	if err := d.awaitCount(ctx, finished, b.Messages); err != nil {
		return err
	}
	b.addCPU(strings.TrimSuffix(rate, "_per_s")+"_cpu_us", before, b.Messages)
	return b.addRun(ctx, s, servicelog.TakingMessages, b.Messages, rate, rss)
}

// awaitCount repeats the query until the count is want.
func (d database) awaitCount(ctx context.Context, query string, want int, args ...any) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := queryValue[int](ctx, d, query, args...)
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
