//nolint:paralleltest // they set variables of the environment, which all tests share
package main

import (
	"reflect"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/settings/settingstest"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/outbox"
)

const (
	ownDatabase = "postgres://orders:db-secret@db/orders"
	ownBroker   = "amqp://orders:mq-secret@mq/"
)

var ours = settingstest.Service[config]{
	Check: check,
	Own:   map[string]string{"DATABASE_URL": ownDatabase, "AMQP_URL": ownBroker},
	Wrong: []string{
		"DATABASE_URL=db",
		"DATABASE_URL=amqp://orders:x@mq/",
		"AMQP_URL=mq:5672",
		"LOG_LEVEL=loud",
		"JAEGER_URL=javascript:alert(1)",
		"JAEGER_URL=http:///search",
		"JAEGER_URL=http://user:secret@localhost/",
		"RUNBOOK_URL=docs/runbook.md",
		"AUDIT_RETENTION=23h",
		"PAGE_PROXIES=10.0.0.1/99",
		"HTTP_ADDR=4000",
		"OPS_ADDR=127.0.0.1",
		"HTTP_MAX_IN_FLIGHT=0",
		"HTTP_MAX_IN_FLIGHT=1025",
		"HTTP_RATE_LIMIT=-1",
		"RELAY_WORKERS=0",
		"RELAY_WORKERS=two",
		"RELAY_WORKERS=2147483646",
		"RELAY_WINDOW=-1",
		"RELAY_WINDOW=5001",
		"OUTBOX_NOTIFY=sometimes",
		"RELAY_POLL_INTERVAL=9ms",
		"RELAY_LEASE=4999ms",
		"RELAY_LEASE=61m",
		"RELAY_CONFIRM_TIMEOUT=0s",
		"RELAY_GIVE_UP=0s",
		"RELAY_RETRY_BASE=-1s",
		"RELAY_RETRY_CAP=15 m",
		"RELAY_RETRY_CAP=999ms",
		"OUTBOX_RETENTION=7d",
		"OUTBOX_RETENTION=59m",
		"IDEMPOTENCY_RETENTION=59m",
	},
}

func TestTheSettings(t *testing.T) { ours.Test(t) }

func TestOnlyTheRelayNeedsAMQPURL(t *testing.T) {
	ours.TestBroker(t, commands(), map[string][]string{"serve": nil, "relay": nil})
}

func TestTheRelayAndTheAPIGetTheirSettings(t *testing.T) {
	c, err := ours.Parse(t, map[string]string{
		"RELAY_WORKERS": "3", "RELAY_WINDOW": "4", "RELAY_POLL_INTERVAL": "5s", "RELAY_LEASE": "60m",
		"HTTP_MAX_IN_FLIGHT": "3", "HTTP_RATE_LIMIT": "4", "RELAY_CONFIRM_TIMEOUT": "7s", "RELAY_GIVE_UP": "8h", "RELAY_RETRY_BASE": "9s", "RELAY_RETRY_CAP": "10s",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := outbox.RelayConfig{
		AppID: "order-service", Retention: 168 * time.Hour, Workers: 3, Window: 4, PollInterval: 5 * time.Second,
		Lease: time.Hour, ConfirmTimeout: 7 * time.Second, GiveUp: 8 * time.Hour, RetryBase: 9 * time.Second, RetryCap: 10 * time.Second,
	}
	if got := c.relay(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if t.Setenv("AMQP_URL_FILE", "a file"); c.broker().FreshURL == nil {
		t.Error("the broker's URL is not read again")
	}
	if want := (httpapi.Limits{InFlight: 3, Rate: 4}); c.limits() != want {
		t.Errorf("got %+v, want %+v", c.limits(), want)
	}
}
