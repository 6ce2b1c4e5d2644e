package rabbitmq_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// publishOnce opens one session of the broker and publishes a batch.
func publishOnce(t *testing.T, b *rabbitmq.Broker, messages ...publish.Message) (results []publish.Result) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	err := b.KeepConnected(ctx, func(_ context.Context, s publish.Session) error {
		p, err := s.NewPublisher(len(messages))
		if err != nil {
			return err
		}
		results = publish.All(p, messages, limit)
		stop()
		return nil
	})
	if err != nil || len(results) != len(messages) {
		t.Fatalf("%d results, error %v", len(results), err)
	}
	return results
}

func TestABrokerPublishesToItsExchangeOrToTheDestination(t *testing.T) {
	t.Parallel()
	own, other := brokertest.Exchange(t), brokertest.Exchange(t)
	first, second := brokertest.Queue(t, own, "order.*"), brokertest.Queue(t, other, "order.*")
	b := rabbitmq.NewBroker("amqp://nobody:old@127.0.0.1:5672", own)
	b.FreshURL = func() (string, error) { return brokertest.URL(), nil }
	if b.System() != "rabbitmq" || b.Name() != own {
		t.Errorf("%s %s", b.System(), b.Name())
	}
	results := publishOnce(t, b,
		publish.Message{ID: "1", Topic: "order.created"}, publish.Message{ID: "2", Topic: "order.created", Destination: other},
		publish.Message{ID: "3", Topic: "nobody.listens"})
	for i, want := range []publish.Outcome{publish.Confirmed, publish.Confirmed, publish.Returned} {
		if results[i].Outcome != want || (want == publish.Returned) != errors.Is(results[i].Err, publish.ErrReturned) {
			t.Errorf("message %d: %+v, want %d", i, results[i], want)
		}
	}
	for queue, want := range map[string]string{first: "1", second: "2"} {
		got := brokertest.Take(t, queue)
		if len(got) != 1 || got[0].MessageId != want || got[0].RoutingKey != "order.created" || got[0].Type != "order.created" {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

// TestAMissingExchangeOfAMessage is like one that nothing is bound to. It is no refusal, and no
// fault of the messages that were sent with it.
func TestAMissingExchangeOfAMessage(t *testing.T) {
	t.Parallel()
	own := brokertest.Exchange(t)
	brokertest.Queue(t, own, "#")
	results := publishOnce(t, rabbitmq.NewBroker(brokertest.URL(), own),
		publish.Message{ID: "1", Topic: "a", Destination: "it's missing"}, publish.Message{ID: "2", Topic: "a"},
		publish.Message{ID: "3", Topic: "a", Destination: "it's missing"})
	for i, missing := range []bool{true, false, true} {
		if r := results[i]; missing != (r.Outcome == publish.Returned) || r.Outcome == publish.Refused {
			t.Errorf("message %d: %+v", i, r)
		}
	}
}

// TestABrokerWaitsForItsTopology: the exchange is of another kind, until somebody deletes it.
func TestABrokerWaitsForItsTopology(t *testing.T) {
	t.Parallel()
	exchange := brokertest.Name()
	brokertest.Do(t, func(c *amqp.Channel) error {
		return c.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil)
	})
	brokertest.DeleteExchanges(t, exchange)
	remove := sync.OnceFunc(func() {
		brokertest.Do(t, func(c *amqp.Channel) error { return c.ExchangeDelete(exchange, false, false) })
	})
	b := rabbitmq.NewBroker(brokertest.URL(), exchange)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			if err := b.LastError(); err == nil || !strings.Contains(err.Error(), exchange) {
				t.Errorf("the last error is %v", err)
			}
			remove()
		}()
		publishOnce(t, b, publish.Message{Topic: "order.created"})
		if took := time.Since(began); took < 10*time.Second {
			t.Errorf("it tried again after %s", took)
		}
	})
}

func TestABrokerWithAWrongURLEndsAtOnce(t *testing.T) {
	t.Parallel()
	if err := rabbitmq.NewBroker("http://a", "e").KeepConnected(t.Context(), nil); err == nil {
		t.Error("no error")
	}
}
