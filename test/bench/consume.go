package main

import (
	"context"
	"errors"

	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/services"
)

// measureConsume times notification-service on a backlog: first until the e-mails are in its
// outbox, then until a mail server has them. For comparison, the same batches are recorded without
// the service, and a bare client sends e-mails over as many connections.
func (b *bench) measureConsume(ctx context.Context) error {
	if err := b.consumeRun(ctx); err != nil {
		return err
	}
	if b.Bare {
		return errors.Join(b.bareBatchRun(ctx), b.bareMailRun())
	}
	return nil
}

func (b *bench) consumeRun(ctx context.Context) error {
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		last, err := b.prepareBacklog(ctx, d)
		if err != nil {
			return err
		}
		if err := b.consumeBacklog(ctx, d, last); err != nil {
			return err
		}
		return b.mailBacklog(ctx, d)
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
	s, err := b.serve(ctx, services.Notifications, "serve", services.TakingMessages, d)
	if err != nil {
		return "", err
	}
	end(s) //nolint:contextcheck // the service must also end after ctx has ended
	messages := messagesOf(orderEvents(b.Messages))
	return messages[len(messages)-1].ID, inSession(ctx, d.broker, func(s *rabbitmq.Session) error {
		return publishAll(s, messages)
	})
}

// These hold the e-mails back, and let them go.
const (
	pauseAllSQL  = `INSERT INTO outbox_topics (topic, until, pause, reason, operator) VALUES ('*', 'infinity', 1, 'bench', 'bench')`
	resumeAllSQL = `DELETE FROM outbox_topics WHERE topic = '*'`
)

// The last message first, by its key: counting all of them reads the table.
const (
	lastRecordedSQL = `SELECT EXISTS (SELECT FROM processed_messages WHERE consumer = $1 AND message_id = $2)`
	allRecordedSQL  = `SELECT count(*) = $1 FROM processed_messages`
)

// consumeBacklog measures from the start of the service's consumer until all messages are recorded.
// No e-mail is sent meanwhile.
func (b *bench) consumeBacklog(ctx context.Context, d database, last string) error {
	if _, err := d.pool.Exec(ctx, pauseAllSQL); err != nil {
		return err
	}
	s, err := b.serve(ctx, services.Notifications, "serve", services.TakingMessages, d)
	if err != nil {
		return err
	}
	defer end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
	done := b.measure("consume", s)
	if err := d.await(ctx, lastRecordedSQL, services.Notifications, last); err != nil {
		return err
	}
	if err := d.await(ctx, allRecordedSQL, b.Messages); err != nil {
		return err
	}
	return done(b.Messages)
}

// mailBacklog measures from the moment at which the e-mails may go, until the mail server has them.
func (b *bench) mailBacklog(ctx context.Context, d database) error {
	server, err := mailserver.Open()
	if err != nil {
		return err
	}
	defer server.Close()
	server.SetFault(mailserver.Fault{RcptDelay: mailDelay})
	s, err := b.serve(ctx, services.Notifications, "serve", services.TakingMessages, d, "SMTP_URL=smtp://"+server.Address())
	if err != nil {
		return err
	}
	defer end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
	done := b.measure("mail", s)
	if _, err := d.pool.Exec(ctx, resumeAllSQL); err != nil {
		return err
	}
	if err := d.awaitPublished(ctx); err != nil {
		return err
	}
	sent, err := queryValue[int](ctx, d, "SELECT count(*) FROM outbox_done WHERE status = 'published'")
	if err != nil {
		return err
	}
	return done(sent)
}
