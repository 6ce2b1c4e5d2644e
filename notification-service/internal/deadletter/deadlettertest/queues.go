// Package deadlettertest gives a test a dead-letter queue of its own, and stops at the steps of a
// change.
package deadlettertest

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

// Timeout bounds every wait.
const Timeout = 40 * time.Second

// Queues are the queues of one test.
type Queues struct {
	testing.TB
	URL     string
	Channel *amqp.Channel
	Letters string // the queue of the dead letters, and the exchange before it
	Requeue string // the exchange
	Service string // the queue behind that
	Hooks   *Hooks
}

// New declares the queues. The test deletes them in the end.
func New(tb testing.TB) Queues {
	tb.Helper()
	q := Queues{TB: tb, URL: servers.BrokerURL(tb), Hooks: new(Hooks)}
	q.Letters, q.Requeue, q.Service = "test."+rand.Text(), "test."+rand.Text(), "test."+rand.Text()
	conn, err := amqp.Dial(q.URL)
	q.Check(err)
	tb.Cleanup(func() { _ = conn.Close() })
	q.Channel, err = conn.Channel()
	q.Check(err)
	q.Check(q.Channel.Confirm(false))
	q.Declare(q.Letters, q.Letters, amqp.Table{"x-delivery-limit": 1_000_000_000})
	q.Declare(q.Service, q.Requeue, amqp.Table{
		"x-delivery-limit": 1, "x-dead-letter-exchange": q.Letters, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	return q
}

// Check ends the test if there is an error.
func (q Queues) Check(err error) {
	q.Helper()
	if err != nil {
		q.Fatal(err)
	}
}

// Declare makes a queue with a fanout exchange before it.
func (q Queues) Declare(queue, exchange string, arguments amqp.Table) {
	q.Helper()
	arguments[amqp.QueueTypeArg] = amqp.QueueTypeQuorum
	_, err := q.Channel.QueueDeclare(queue, true, false, false, false, arguments)
	q.Check(err)
	q.Check(q.Channel.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
	q.Check(q.Channel.QueueBind(queue, "", exchange, false, nil))
	q.Cleanup(func() {
		_ = q.Channel.ExchangeDelete(exchange, false, false)
		_, _ = q.Channel.QueueDelete(queue, false, false, false)
	})
}

// Queue is what the code under test uses. It calls the hooks at each step.
func (q Queues) Queue() deadletter.Queue { return q.QueueWithin(Timeout) }

// QueueWithin is Queue with another limit of the wait for a session.
func (q Queues) QueueWithin(timeout time.Duration) deadletter.Queue {
	connect := func(ctx context.Context, use func(context.Context, deadletter.Session) error) error {
		config := rabbitmq.Config{URL: q.URL, Name: q.Name()}
		return cli.WithSession(ctx, config, timeout, func(ctx context.Context, s *rabbitmq.Session) error {
			return use(ctx, q.Hooks.on(deadletter.Adapt(s)))
		})
	}
	return deadletter.Queue{Name: q.Letters, Requeue: q.Requeue, Connect: connect}
}

// Add puts a message where the consumer puts its dead letters, and returns its id.
func (q Queues) Add(code string, age time.Duration, change ...func(*amqp.Publishing)) string {
	q.Helper()
	p := amqp.Publishing{
		MessageId: rand.Text(), Type: "order.created", ContentType: "application/json", AppId: "order-service",
		DeliveryMode: amqp.Persistent, Timestamp: time.Now().Add(-age - time.Hour).Truncate(time.Second), Body: []byte(`{"quantity": 2}`),
		Headers: amqp.Table{
			"failure-code": code, "failure-reason": "because of " + code, "failed-at": time.Now().Add(-age).UTC().Format(time.RFC3339),
			"retry-count": int64(3), "original-exchange": "outbox.events", "traceparent": "00-aa-bb-01",
		},
	}
	for _, change := range change {
		change(&p)
	}
	q.Publish(q.Letters, p)
	return p.MessageId
}

// AddMany puts n messages there, and returns their ids in the order of the queue.
func (q Queues) AddMany(n int) (ids []string) {
	q.Helper()
	confirmations := make([]*amqp.DeferredConfirmation, 0, n)
	for range n {
		ids = append(ids, rand.Text())
		c, err := q.Channel.PublishWithDeferredConfirm(q.Letters, "", true, false, amqp.Publishing{MessageId: ids[len(ids)-1]})
		q.Check(err)
		confirmations = append(confirmations, c)
	}
	for _, c := range confirmations {
		if !c.Wait() {
			q.Fatal("a message was not confirmed")
		}
	}
	return ids
}

// Publish publishes a message. Its type is the routing key.
func (q Queues) Publish(exchange string, p amqp.Publishing) {
	q.Helper()
	c, err := q.Channel.PublishWithDeferredConfirm(exchange, p.Type, true, false, p)
	q.Check(err)
	if !c.Wait() {
		q.Fatal("the message was not confirmed")
	}
}

// Await returns when n messages are in the queue.
func (q Queues) Await(queue string, n int) {
	q.Helper()
	for deadline := time.Now().Add(Timeout); ; time.Sleep(5 * time.Millisecond) {
		state, err := q.Channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		q.Check(err)
		if state.Messages >= n {
			return
		}
		if time.Now().After(deadline) {
			q.Fatalf("%d messages in %s, want %d", state.Messages, queue, n)
		}
	}
}

// Hold takes n messages, which must come, and keeps them.
func (q Queues) Hold(queue string, n int) (messages []amqp.Delivery) {
	q.Helper()
	q.Await(queue, n)
	for range n {
		d, _, err := q.Channel.Get(queue, false)
		q.Check(err)
		messages = append(messages, d)
	}
	return messages
}

// Drain waits for n messages in a queue, and takes all of them.
func (q Queues) Drain(queue string, n int) (messages []amqp.Delivery) {
	q.Helper()
	for deadline := time.Now().Add(Timeout); ; {
		d, ok, err := q.Channel.Get(queue, true)
		q.Check(err)
		switch {
		case ok:
			messages = append(messages, d)
		case len(messages) >= n:
			return messages
		case time.Now().After(deadline):
			q.Fatalf("%d messages in %s, want %d", len(messages), queue, n)
		default:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// Contents drains both queues: the dead letters that are left, and the messages that were sent to
// the service.
func (q Queues) Contents(letters, replayed int) (left, sent []string) {
	q.Helper()
	return IDs(q.Drain(q.Letters, letters)), IDs(q.Drain(q.Service, replayed))
}

// IDs are the ids of messages.
func IDs(messages []amqp.Delivery) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageId)
	}
	return ids
}

// SameSet reports whether two lists have the same texts, in any order.
func SameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
