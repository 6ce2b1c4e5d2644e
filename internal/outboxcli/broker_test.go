package outboxcli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// queues are a service's queue, and its dead letters, at the broker.
type queues struct {
	fixture
	*amqp.Channel
}

func newQueues(t *testing.T) queues {
	t.Helper()
	q := queues{fixture: newFixture(t)}
	q.Service.Name, q.AMQPURL = "test."+rand.Text(), servers.BrokerURL(t)
	conn, err := amqp.Dial(q.AMQPURL)
	check.Must(q.T, err)
	t.Cleanup(func() { _ = conn.Close() })
	q.Channel, err = conn.Channel()
	check.Must(q.T, err)
	check.Must(q.T, q.Confirm(false))
	for queue, exchange := range map[string]string{q.Service.Name: q.Service.Name + ".requeue", q.Service.Name + ".dlq": q.Service.Name + ".dlq"} {
		_, err := q.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
		check.Must(q.T, err)
		check.Must(q.T, q.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
		check.Must(q.T, q.QueueBind(queue, "", exchange, false, nil))
		t.Cleanup(func() {
			_ = q.ExchangeDelete(exchange, false, false)
			_, _ = q.QueueDelete(queue, false, false, false)
		})
	}
	return q
}

// drain waits for n messages in a queue, and takes all of them.
func (q queues) drain(queue string, n int) (ids []string) {
	q.Helper()
	check.Await(q.T, fmt.Sprint(n, " messages in ", queue), func() bool {
		for {
			d, ok, err := q.Get(queue, true)
			if check.Must(q.T, err); !ok {
				return len(ids) >= n
			}
			ids = append(ids, d.MessageId)
		}
	})
	return ids
}

// TestDeadLettersAtABroker are given back, unless they are changed. Reading them needs no database.
func TestDeadLettersAtABroker(t *testing.T) {
	t.Parallel()
	q := newQueues(t)
	ids := []string{rand.Text(), rand.Text(), rand.Text()}
	for _, id := range ids {
		c, err := q.PublishWithDeferredConfirm(q.Service.Name+".dlq", "order.created", true, false, amqp.Publishing{MessageId: id, Body: []byte("ann@example.com")})
		check.Must(q.T, err)
		if !c.Wait() {
			t.Fatal("a message was not confirmed")
		}
	}
	databaseURL := q.DatabaseURL
	q.DatabaseURL = "postgres://shop@127.0.0.1:1/shop"
	if out, _, err := q.run(t.Context(), "dlq", "list", "--json"); err != nil || !slices.Equal(idsOf(t, out), ids) {
		t.Errorf("error %v\n%s", err, out)
	}
	if _, _, err := q.run(t.Context(), "dlq", "discard", "--all"); status(err) != 1 || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("without a database: error %v", err)
	}
	var shown strings.Builder
	q.Masked = true // only in events
	show, err := q.DeadLetters([]string{"show", ids[1]}, &shown)
	if err = errors.Join(err, show(t.Context(), q.Servers)); err != nil {
		t.Error(err)
	}
	wantAll(t, shown.String(), ids[1], "body\nann@example.com\n")
	q.DatabaseURL = databaseURL
	if out, _, err := q.run(t.Context(), "dlq", "replay", ids[0], ids[2]); err != nil || out != "2 replayed.\n" {
		t.Errorf("it prints %q, error %v", out, err)
	}
	left, replayed := q.drain(q.Service.Name+".dlq", 1), q.drain(q.Service.Name, 2)
	if !slices.Equal(left, ids[1:2]) || len(replayed) != 2 {
		t.Errorf("left are %v, replayed %v of %v", left, replayed, ids)
	}
	q.Service.Name += ".missing"
	if _, _, err := q.run(t.Context(), "dlq", "list"); status(err) != 1 || !strings.Contains(err.Error(), "start the service "+q.Service.Name) {
		t.Errorf("without a queue: error %v", err)
	}
}

func TestACommandGivesUpOnABrokerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	nowhere := rabbitmq.NewBroker("amqp://shop:own@127.0.0.1:1/", "outbox.events")
	use := func(context.Context, publish.Session) error {
		t.Error("there is a session")
		return nil
	}
	err := onSession(t.Context(), 100*time.Millisecond, nowhere.KeepConnected, use)
	if err == nil || !strings.Contains(err.Error(), "AMQP_URL") {
		t.Errorf("error %v, want one that names AMQP_URL", err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := onSession(interrupted, time.Hour, nowhere.KeepConnected, use); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted, it gives the error %v", err)
	}
}
