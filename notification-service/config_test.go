//nolint:paralleltest // they set variables of the environment, which all tests share
package main

import (
	"reflect"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/settings/settingstest"
	"example.com/transactional-outbox/notification-service/internal/mailer"
)

const (
	ownDatabase = "postgres://mails:db-secret@db/mails"
	ownBroker   = "amqp://mails:mq-secret@mq/"
)

var ours = settingstest.Service[config]{
	Check: check,
	Own:   map[string]string{"DATABASE_URL": ownDatabase, "AMQP_URL": ownBroker},
	Published: map[string]string{
		"DATABASE_URL": "postgres://notification_service:notification_service@db/mails", "AMQP_URL": "amqp://outbox:outbox@mq/",
	},
	Wrong: []string{
		"DATABASE_URL=db",
		"AMQP_URL=mq:5672",
		"LOG_LEVEL=loud",
		"PEER_OPS_URL=notification-service:4101",
		"PEER_PAGE_URL=http://user:secret@localhost:4101/",
		"JAEGER_URL=javascript:alert(1)",
		"JAEGER_URL=http:///search",
		"AUDIT_RETENTION=23h",
		"PAGE_USERS=ann",
		"PAGE_USERS=ann:read:plain",
		"OPS_ADDR=127.0.0.1",
		"CONSUMER_WORKERS=eight",
		"CONSUMER_WORKERS=0",
		"CONSUMER_PREFETCH=1e3",
		"CONSUMER_PREFETCH=7",
		"CONSUMER_PREFETCH=2001",
		"CONSUMER_BATCH_SIZE=0",
		"CONSUMER_BATCH_SIZE=1001",
		"DELIVERY_LIMIT=none",
		"DELIVERY_LIMIT=0",
		"RETRY_DELAYS=soon",
		"RETRY_DELAYS=0s",
		"RETRY_DELAYS=1500us",
		"RETRY_DELAYS=1m,30s",
		"RETRY_DELAYS=1m,1m",
		"RETRY_DELAYS=1s,25h",
		"RETRY_DELAYS=1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s",
		"INBOX_RETENTION=30d",
		"INBOX_RETENTION=24h",
		"NOTIFICATION_RETENTION=a month",
		"NOTIFICATION_RETENTION=719h",
		"SMTP_URL=mail:25",
		"SMTP_URL=http://mail",
		"SMTP_URL=smtp://shop:a-secret@mail:x",
		"MAIL_FROM=Shop <shop@example.com>",
		"MAIL_FROM=shop",
		"DEFAULT_RECIPIENT=a@example.com, b@example.com",
		"DEFAULT_RECIPIENT=x",
	},
	Database: func(c config) string { return c.DatabaseURL.Reveal() },
}

func TestTheSettings(t *testing.T) { ours.Test(t) }

func TestTheConsumerAndDeadLettersNeedAMQPURL(t *testing.T) {
	ours.TestBroker(t, commands(), map[string][]string{"serve": nil, "dlq": {"list"}})
}

func TestTheDefaultsOfNotificationService(t *testing.T) {
	got, err := ours.Parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		Shared:  settings.Shared{AppEnv: "production", DatabaseURL: ownDatabase, AMQPURL: ownBroker, Page: settings.Page{AuditRetention: 8760 * time.Hour}},
		OpsAddr: "127.0.0.1:4101", ConsumerWorkers: 8, ConsumerBatchSize: 64, ConsumerPrefetch: 256, DeliveryLimit: 50,
		RetryDelays: []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute}, InboxRetention: 30 * 24 * time.Hour,
		NotificationRetention: 30 * 24 * time.Hour,
		MailFrom:              "shop@example.com", DefaultRecipient: "guest@example.com",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheMailerIsTheLogUntilThereIsAServer(t *testing.T) {
	tests := map[string]func(mailer.Mailer) bool{
		"":                                    func(m mailer.Mailer) bool { return m == mailer.Log{} },
		"smtp://mail:25":                      func(m mailer.Mailer) bool { _, ok := m.(*mailer.SMTP); return ok },
		"smtps://shop:a-secret@mail.example/": func(m mailer.Mailer) bool { _, ok := m.(*mailer.SMTP); return ok },
	}
	for server, is := range tests {
		c, err := ours.Parse(t, map[string]string{"SMTP_URL": server})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := c.mailer(); err != nil || !is(m) {
			t.Errorf("SMTP_URL=%q makes a %T, error %v", server, m, err)
		}
	}
}
