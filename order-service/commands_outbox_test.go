//nolint:paralleltest // the other tests of this package set variables of the environment
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/outboxcli"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

const hour = time.Hour // much longer than it takes to connect

func TestACommandGetsOneSessionWithTheExchangeDeclared(t *testing.T) {
	url := servers.BrokerURL(t)
	exchange := "test." + rand.Text()
	t.Cleanup(func() { deleteExchange(t, url, exchange) })
	failure := errors.New("the command failed")
	for _, want := range []error{nil, failure} {
		sessions := 0
		err := outboxcli.Once("the broker", rabbitmq.NewBroker(url, exchange), hour)(t.Context(), func(_ context.Context, b publish.Session) error {
			sessions++
			publisher, err := b.NewPublisher(1)
			if err != nil {
				return err
			}
			defer publisher.Close()
			// The exchange returns the message. A missing exchange would close the channel.
			result := publish.All(publisher, []publish.Message{{ID: "1", Topic: "k"}}, time.Minute)[0]
			if result.Outcome != publish.Returned {
				t.Errorf("publishing: %v", result.Err)
			}
			return want
		})
		if sessions != 1 || !errors.Is(err, want) {
			t.Errorf("%d sessions, error %v, want one, and the error %v", sessions, err, want)
		}
	}
}

func deleteExchange(t *testing.T, url, exchange string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err == nil {
		err = channel.ExchangeDelete(exchange, false, false)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestACommandGivesUpOnABrokerThatDoesNotAnswer(t *testing.T) {
	nowhere := rabbitmq.NewBroker("amqp://shop:own@127.0.0.1:1/", exchange)
	use := func(context.Context, publish.Session) error {
		t.Error("there is a session")
		return nil
	}
	err := outboxcli.Once("the broker that AMQP_URL names", nowhere, 100*time.Millisecond)(t.Context(), use)
	if err == nil || !strings.Contains(err.Error(), "AMQP_URL") {
		t.Errorf("error %v, want one that names AMQP_URL", err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := outboxcli.Once("the broker", nowhere, hour)(interrupted, use); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted, it gives the error %v", err)
	}
}

func TestRepublishNeedsAMQPURLAndOtherActionsDoNot(t *testing.T) {
	_, url := postgrestest.Migrated(t, schema)
	withoutBroker := config{Shared: settings.Shared{DatabaseURL: settings.Secret(url)}}
	for connects, want := range map[bool]string{false: "", true: "AMQP_URL is not set"} {
		err := withoutBroker.runAction(t.Context(), func(ctx context.Context, d outboxcli.Dependencies) error {
			if !connects {
				return nil
			}
			return d.Destination(ctx, func(context.Context, publish.Session) error { return nil })
		})
		if (err != nil) != connects || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("connects: %t, error %v, want %q", connects, err, want)
		}
	}
}

func TestACommandNeedsAReachableAndMigratedDatabase(t *testing.T) {
	worked := 0
	work := func(context.Context, outboxcli.Dependencies) error {
		worked++
		return nil
	}
	for url, hint := range map[string]string{
		"postgres://shop@127.0.0.1:1/shop": "DATABASE_URL",
		servers.Database(t):                "order-service migrate",
	} {
		c := config{Shared: settings.Shared{DatabaseURL: settings.Secret(url)}}
		if err := c.runAction(t.Context(), work); worked != 0 || err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("error %v, want a hint at %s", err, hint)
		}
	}
	_, url := postgrestest.Migrated(t, schema)
	if err := (config{Shared: settings.Shared{DatabaseURL: settings.Secret(url)}}).runAction(t.Context(), work); worked != 1 || err != nil {
		t.Errorf("worked %d times, error %v", worked, err)
	}
}
