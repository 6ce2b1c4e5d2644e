package cli_test

import (
	"crypto/rand"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// deadLetter puts a message where the consumer puts its dead letters, and returns its id.
func (b fixture) deadLetter(code string, age time.Duration, change ...func(*amqp.Publishing)) string {
	b.Helper()
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
	b.publish(b.queue, p)
	return p.MessageId
}

// deadLetterMany puts n messages there, and returns their ids in the order of the queue.
func (b fixture) deadLetterMany(n int) (ids []string) {
	b.Helper()
	confirmations := make([]*amqp.DeferredConfirmation, 0, n)
	for range n {
		ids = append(ids, rand.Text())
		c, err := b.channel.PublishWithDeferredConfirm(b.queue, "", true, false, amqp.Publishing{MessageId: ids[len(ids)-1]})
		b.check(err)
		confirmations = append(confirmations, c)
	}
	for _, c := range confirmations {
		if !c.Wait() {
			b.Fatal("a message was not confirmed")
		}
	}
	return ids
}

func (b fixture) publish(exchange string, p amqp.Publishing) {
	b.Helper()
	c, err := b.channel.PublishWithDeferredConfirm(exchange, p.Type, true, false, p)
	b.check(err)
	if !c.Wait() {
		b.Fatal("the message was not confirmed")
	}
}

// drain waits for n messages in a queue, and takes all of them.
func (b fixture) drain(queue string, n int) (messages []amqp.Delivery) {
	b.Helper()
	for deadline := time.Now().Add(testTimeout); ; {
		d, ok, err := b.channel.Get(queue, true)
		b.check(err)
		switch {
		case ok:
			messages = append(messages, d)
		case len(messages) >= n:
			return messages
		case time.Now().After(deadline):
			b.Fatalf("%d messages in %s, want %d", len(messages), queue, n)
		default:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// contents drains both queues: the dead letters that are left, and the messages that were sent
// to the service.
func (b fixture) contents(letters, replayed int) (left, sent []string) {
	b.Helper()
	return messageIDs(b.drain(b.queue, letters)), messageIDs(b.drain(b.service, replayed))
}

func messageIDs(messages []amqp.Delivery) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageId)
	}
	return ids
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
