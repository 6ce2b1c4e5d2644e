//nolint:paralleltest // they set variables of the environment, which all tests share
package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings/settingstest"
)

const (
	ownDatabase = "postgres://mails:db-secret@db/mails"
	ownBroker   = "amqp://mails:mq-secret@mq/"
)

var ours = settingstest.Service[config]{
	Check: check,
	Own:   map[string]string{"DATABASE_URL": ownDatabase, "AMQP_URL": ownBroker},
	Wrong: []string{
		"DATABASE_URL=db",
		"AMQP_URL=mq:5672",
		"OPS_ADDR=127.0.0.1",
		"CONSUMER_PREFETCH=1e3",
		"CONSUMER_PREFETCH=63",
		"CONSUMER_PREFETCH=2001",
		"CONSUMER_BATCH_SIZE=0",
		"CONSUMER_BATCH_SIZE=1e3",
		"CONSUMER_GIVE_UP=999ms",
		"DELIVERY_LIMIT=0",
		"RETRY_DELAYS=soon",
		"RETRY_DELAYS=0s",
		"RETRY_DELAYS=1500us",
		"RETRY_DELAYS=1m,30s",
		"RETRY_DELAYS=1m,1m",
		"RETRY_DELAYS=1s,25h",
		"RETRY_DELAYS=1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s",
		"INBOX_RETENTION=30d",
		"INBOX_RETENTION=71h",
		"MAIL_CONNECTIONS=0",
		"MAIL_CONNECTIONS=1001",
		"RELAY_WINDOW=0",
		"SMTP_URL=mail:25",
		"SMTP_URL=http://mail",
		"SMTP_URL=smtp://shop:a-secret@mail:x",
		"MAIL_FROM=Shop <shop@example.com>",
		"MAIL_FROM=shop",
		"DEFAULT_RECIPIENT=a@example.com, b@example.com",
		"DEFAULT_RECIPIENT=x",
		"MAIL_HELO=the shop",
	},
}

func TestTheSettings(t *testing.T) { ours.Test(t) }

func TestTheConsumerAndDeadLettersNeedAMQPURL(t *testing.T) {
	ours.TestBroker(t, commands(), map[string][]string{"serve": nil, "dlq": {"list"}})
}

// TestEmailsThatNobodyWouldGetAreRefused outside the demo: they would count as sent.
func TestEmailsThatNobodyWouldGetAreRefused(t *testing.T) {
	sending := ours
	sending.Check = checkAll
	good := map[string]string{"SMTP_URL": "smtp://mail:25", "MAIL_FROM": "shop@shop.test", "DEFAULT_RECIPIENT": "guest@shop.test"}
	for name, test := range map[string]struct {
		change map[string]string
		wrong  []string
	}{
		"good":                   {nil, nil},
		"to the log, on purpose": {map[string]string{"SMTP_URL": "log:"}, nil},
		"no mail server":         {map[string]string{"SMTP_URL": ""}, []string{"SMTP_URL"}},
		"examples": {
			map[string]string{"MAIL_FROM": "shop@Example.com", "DEFAULT_RECIPIENT": "guest@example.com"}, []string{"DEFAULT_RECIPIENT", "MAIL_FROM"},
		},
		"the demo": {map[string]string{"APP_ENV": "demo", "SMTP_URL": "", "MAIL_FROM": "shop@example.com", "DEFAULT_RECIPIENT": "guest@example.com"}, nil},
	} {
		variables := maps.Clone(good)
		maps.Copy(variables, test.change)
		_, err := sending.Parse(t, variables)
		var wrong []string
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				variable, _, _ := strings.Cut(line, " ")
				wrong = append(wrong, variable)
			}
		}
		slices.Sort(wrong)
		if !slices.Equal(wrong, test.wrong) {
			t.Errorf("%s: errors of %v, want %v", name, wrong, test.wrong)
		}
	}
}

// TestTheRelayAndTheConsumerTakeTheirSettings: both refuse settings that cannot work.
func TestTheRelayAndTheConsumerTakeTheirSettings(t *testing.T) {
	c, err := ours.Parse(t, map[string]string{"APP_ENV": "demo", "RELAY_WINDOW": "7", "RELAY_WORKERS": "3", "OUTBOX_NOTIFY": "false", "CONSUMER_GIVE_UP": "2h", "MAIL_HELO": "shop.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AMQP_URL_FILE", "a file")
	t.Setenv("SMTP_URL_FILE", "another file")
	db, err := postgres.Open(t.Context(), ownDatabase, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := assemble(c, db, prometheus.NewRegistry()); err != nil {
		t.Error(err)
	}
	if r := c.relay(); r.Workers != 3 || r.Window != 7 || !r.NoListen || !r.DurableMarks || r.SettleAfter != time.Microsecond ||
		!slices.Equal(r.NoAnswerPauses, []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 4 * time.Hour}) {
		t.Errorf("the relay has %+v", r)
	}
	if q := c.queue(); q.GiveUp != 2*time.Hour || q.Name != operators.Name || q.Check == nil || q.FreshURL == nil {
		t.Errorf("the consumer has %+v", q)
	}
	if m := c.mail("shop@example.com"); m.Helo != "shop.example.com" || m.FreshURL == nil {
		t.Errorf("the mailer has %+v", m)
	}
}

// TestP12TheConsumerAndTheRelayEndInTime leaves 3 s of the 25 s for the rest.
func TestP12TheConsumerAndTheRelayEndInTime(t *testing.T) {
	c, err := ours.Parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sum := c.queue().ShutdownTimeout + c.relay().ShutdownTimeout; sum > 22*time.Second {
		t.Errorf("they end within %s: with the rest it is longer than 25 s", sum)
	}
}
