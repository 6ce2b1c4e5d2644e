package main

import (
	"context"
	"errors"
	"fmt"
	"net/smtp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/services"
)

const (
	batchSize       = 64 // the default of CONSUMER_BATCH_SIZE; the consumer has one connection
	mailConnections = 8  // the default of MAIL_CONNECTIONS

	mailDelay = 5 * time.Millisecond // how long the mail server takes for each e-mail
)

// bareMessage is the id of a message, and of its order.
type bareMessage string

func (m bareMessage) MessageID() string { return string(m) }

// bareBatchRun records as many messages as the service gets, without a broker. Each batch is a
// transaction.
func (b *bench) bareBatchRun(ctx context.Context) error {
	d, err := b.newDatabase(ctx, migrations.Schema)
	if err != nil {
		return err
	}
	defer d.drop()
	messages := make([]bareMessage, b.Messages)
	for i := range messages {
		messages[i] = bareMessage(uuid.NewString())
	}
	handling := inbox.OnceBatch(d.pool, services.Notifications, recordBare)
	done := b.measure("bare_batch")
	for batch := range slices.Chunk(messages, batchSize) {
		if err := handling.Handle(ctx, batch); err != nil {
			return err
		}
	}
	return done(b.Messages)
}

const progressSQL = `
INSERT INTO order_progress AS p (order_id, last_version) SELECT id::uuid, 1 FROM unnest($1::text[]) id ORDER BY id
ON CONFLICT (order_id) DO UPDATE SET last_version = greatest(p.last_version, excluded.last_version)`

const bareBody = `{"type":"order.created","to":"ada@example.com","order_id":"01a21073-8cff-71eb-8ee2-0d633394fc52","order_version":1,` +
	`"product_id":"sku123","quantity":1,"amount":2999,"currency":"GBP","occurred_at":"2026-11-21T12:00:00.123456Z"}`

// recordBare writes the effect of new messages: the progress of their orders, and the e-mails.
func recordBare(ctx context.Context, tx pgx.Tx, messages []bareMessage) error {
	emails := make([]outbox.Event, len(messages))
	for i, m := range messages {
		emails[i] = outbox.Event{
			ID: uuid.MustParse(string(m)), Topic: "example.com", Aggregate: "order", AggregateID: string(m), Version: 1,
			Payload: []byte(bareBody), Supersedes: true,
		}
	}
	if _, err := tx.Exec(ctx, progressSQL, messages); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, emails...)
}

// bareMailRun sends e-mails over as many connections as the service has, and does nothing else.
func (b *bench) bareMailRun() error {
	server, err := mailserver.Open()
	if err != nil {
		return err
	}
	defer server.Close()
	server.SetFault(mailserver.Fault{RcptDelay: mailDelay})
	done := b.measure("bare_mail")
	var all errgroup.Group
	for first := range mailConnections {
		client, err := smtp.Dial(server.Address())
		if err != nil {
			return err
		}
		defer client.Close()
		all.Go(func() error {
			for i := first; i < b.Messages; i += mailConnections {
				if err := sendBare(client, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return errors.Join(all.Wait(), done(b.Messages))
}

// bareMail is about as long as an e-mail of the service.
var bareMail = "From: shop@example.com\r\nTo: ada@example.com\r\nMessage-ID: <%d@example.com>\r\nSubject: x\r\n\r\n" +
	strings.Repeat(strings.Repeat("x", 70)+"\r\n", 40)

func sendBare(client *smtp.Client, i int) error {
	if err := client.Mail("shop@example.com"); err != nil {
		return err
	}
	if err := client.Rcpt("ada@example.com"); err != nil {
		return err
	}
	body, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(body, bareMail, i); err != nil {
		return err
	}
	return body.Close()
}
