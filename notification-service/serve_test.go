package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/notification-service/internal/effect"
	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestP12TheEndFinishesTheEmailsThatAreBeingSent, and begins no other. They are marked, so nobody
// gets them twice. The broker is away: it does not delay the end.
func TestP12TheEndFinishesTheEmailsThatAreBeingSent(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, migrations.Schema)
	begun, answer := make(chan string, 10), make(chan struct{})
	server := &mailertest.Server{OnDot: func(to string) error {
		begun <- to
		<-answer
		return nil
	}}
	c := config{
		Shared: settings.Shared{AppEnv: settings.Demo, AMQPURL: "amqp://127.0.0.1:1/", Page: settings.Page{AuditRetention: 24 * time.Hour}},
		Relay: settings.Relay{
			RelayWorkers: 1, RelayPollInterval: 20 * time.Millisecond, RelayLease: 20 * time.Second, RelayGiveUp: time.Hour,
			RelayRetryBase: time.Second, RelayRetryCap: time.Second, OutboxRetention: time.Hour,
		},
		RelayWindow: 64, ConsumerBatchSize: 1, ConsumerPrefetch: 1, ConsumerGiveUp: time.Hour, DeliveryLimit: 1, InboxRetention: time.Hour,
		SMTPURL: settings.Secret("smtp://" + server.Start(t)), MailConnections: 2, MailFrom: "shop@example.com",
	}
	p, err := assemble(c, db, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	handler := effect.NewHandler(db.Pool(), effect.Config{Consumer: service, InboxRetention: time.Hour, Wake: p.relay.Wake}, effect.NewMetrics(prometheus.NewRegistry()))
	var batch []rabbitmq.Message
	for i := range 3 { // one domain gets one of two connections
		batch = append(batch, rabbitmq.Message{ID: uuid.NewString(), Type: email.OrderCreated, Body: fmt.Appendf(nil,
			`{"order_id":"%s","order_version":1,"customer_email":"ada@%d.test","product_id":"sku123","quantity":1,"amount":2999,"currency":"GBP"}`, uuid.New(), i)})
	}
	if err := handler.Handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	<-begun
	<-begun
	end()
	time.Sleep(500 * time.Millisecond) // the relay has begun to end
	close(answer)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
	var sent, waiting int
	err = db.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM outbox_published), (SELECT count(*) FROM outbox_queue)`).Scan(&sent, &waiting)
	if n := len(server.Received()); err != nil || n != 2 || sent != 2 || waiting != 1 {
		t.Errorf("%d arrived, %d are marked, %d wait, error %v", n, sent, waiting, err)
	}
}
