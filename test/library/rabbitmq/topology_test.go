package rabbitmq_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
)

// TestDeclareReturnsAMismatch, and so does KeepConnected: to try again would not help. What may not
// be unbound is no error: it stops no message.
func TestDeclareReturnsAMismatch(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue, missing := b.exchange(), b.queue(nil), name()
	s := b.session()
	ctx, cancel := context.WithTimeout(t.Context(), check.Limit)
	defer cancel()
	for what, c := range map[string]struct {
		topology rabbitmq.Topology
		mismatch bool
		names    string
	}{
		"exchange of another kind": {
			rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "fanout"}}},
			true, "exchange " + exchange,
		},
		"queue with another argument": {
			rabbitmq.Topology{Queues: []rabbitmq.DeclaredQueue{{Name: queue, Arguments: map[string]any{"x-message-ttl": 5}}}},
			true, "x-message-ttl",
		},
		"binding to no exchange": {
			rabbitmq.Topology{Queues: []rabbitmq.DeclaredQueue{{Name: queue, Bindings: []rabbitmq.Binding{{Exchange: missing, Key: "k"}}}}},
			false, missing,
		},
		"a name that nobody may declare": { // the broker answers the same to a user without the right
			rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: "amq." + missing, Kind: "topic"}}},
			false, "give this user the right to configure",
		},
	} {
		err := s.Declare(c.topology)
		if c.mismatch {
			err = rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: b.url, Name: what}, func(_ context.Context, s *rabbitmq.Session) error {
				return s.Declare(c.topology)
			})
		}
		var mismatch *rabbitmq.MismatchError
		if err == nil || errors.As(err, &mismatch) != c.mismatch || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Nobody may unbind from the default exchange: 403, as for a user without the right.
	mayNot := rabbitmq.DeclaredQueue{Name: queue, Former: []rabbitmq.Binding{{Key: queue}}}
	check.Must(t, s.Declare(rabbitmq.Topology{Queues: []rabbitmq.DeclaredQueue{mayNot}}))
}

func TestWaitForExchange(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange := b.newName("exchange")
	s := b.session()

	briefly, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.WaitForExchange(briefly, exchange, "topic"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waiting for an exchange that is not there: %v", err)
	}

	waited := make(chan error, 1)
	go func() { waited <- s.WaitForExchange(t.Context(), exchange, "topic") }()
	b.withChannel(func(c *amqp.Channel) error {
		return c.ExchangeDeclare(exchange, "topic", true, false, false, false, nil)
	})
	if err := check.Receive(t, waited, "the exchange"); err != nil {
		t.Error(err)
	}
}
