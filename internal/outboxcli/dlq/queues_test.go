package dlq_test

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

// timeout bounds every wait.
const timeout = 2 * time.Minute

// queues are the queues of one test.
type queues struct {
	testing.TB
	URL     string
	Channel *amqp.Channel
	Letters string // the queue of the dead letters, and the exchange before it
	Requeue string // the exchange
	Service string // the queue behind that
	Hooks   *hooks
}

// newQueues declares the queues. The test deletes them in the end.
func newQueues(tb testing.TB) queues {
	tb.Helper()
	q := queues{TB: tb, URL: servers.BrokerURL(tb), Service: "test." + rand.Text(), Hooks: new(hooks)}
	q.Letters, q.Requeue = q.Service+".dlq", q.Service+".requeue"
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
func (q queues) Check(err error) {
	q.Helper()
	if err != nil {
		q.Fatal(err)
	}
}

// Declare makes a queue with a fanout exchange before it.
func (q queues) Declare(queue, exchange string, arguments amqp.Table) {
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

// open is what the code under test uses. It calls the hooks at each step.
func (q queues) open() dlq.Open {
	connection := rabbitmq.Config{URL: q.URL, Name: q.Name()}
	return q.Hooks.on(dlq.OpenQueue(connection, rabbitmq.Queue{Name: q.Service}, timeout))
}

// Add puts a message where the consumer puts its dead letters, and returns its id.
func (q queues) Add(code string, age time.Duration, change ...func(*amqp.Publishing)) string {
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
func (q queues) AddMany(n int) (ids []string) {
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
func (q queues) Publish(exchange string, p amqp.Publishing) {
	q.Helper()
	c, err := q.Channel.PublishWithDeferredConfirm(exchange, p.Type, true, false, p)
	q.Check(err)
	if !c.Wait() {
		q.Fatal("the message was not confirmed")
	}
}

// Await returns when n messages are in the queue.
func (q queues) Await(queue string, n int) {
	q.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(5 * time.Millisecond) {
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
func (q queues) Hold(queue string, n int) (messages []amqp.Delivery) {
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
func (q queues) Drain(queue string, n int) (messages []amqp.Delivery) {
	q.Helper()
	for deadline := time.Now().Add(timeout); ; {
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
func (q queues) Contents(letters, replayed int) (left, sent []string) {
	q.Helper()
	return idsOf(q.Drain(q.Letters, letters)), idsOf(q.Drain(q.Service, replayed))
}

// idsOf are the ids of messages.
func idsOf(messages []amqp.Delivery) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageId)
	}
	return ids
}

// sameSet reports whether two lists have the same texts, in any order.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
