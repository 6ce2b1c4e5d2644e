package rabbitmq_test

import (
	"context"
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
)

func (b brokerTest) consume(s session, queue string, prefetch int) *rabbitmq.Deliveries {
	b.Helper()
	c, err := s.Deliveries(queue)
	if err == nil {
		err = c.Start(prefetch)
	}
	check.Must(b, err)
	return c
}

// wantDeliveries waits for deliveries of these messages, in this order.
func (b brokerTest) wantDeliveries(c *rabbitmq.Deliveries, ids ...string) (deliveries []rabbitmq.Delivery) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), check.Limit)
	defer cancel()
	for _, id := range ids {
		d, err := c.Next(ctx)
		if err != nil {
			b.Fatalf("waiting for %s: %v", id, err)
		}
		if d.ID != id {
			b.Fatalf("got %s, want %s", d.ID, id)
		}
		deliveries = append(deliveries, d)
	}
	return deliveries
}

func (b brokerTest) ack(d rabbitmq.Delivery) {
	b.Helper()
	check.Must(b, d.Ack())
}

// Delivery tags begin again at 1 with each session. With the client library's own recovery, the
// late ack of B would remove C.
func TestAnAckFromBeforeACutRemovesNothing(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	b.put(queue, "A", "B", "C", "D")
	proxy, url := b.proxy()
	k := b.keep(url)
	consumer := b.consume(k.next(), queue, 3)
	out := b.wantDeliveries(consumer, "A", "B", "C")
	b.ack(out[0])
	b.wantDeliveries(consumer, "D") // so the broker has the ack of A
	proxy.Cut()

	again := b.wantDeliveries(b.consume(k.next(), queue, 3), "B", "C", "D")
	if err := out[1].Ack(); err == nil {
		t.Error("the ack of B went somewhere")
	}
	b.ack(again[0])
	check.Must(t, k.end())
	b.wantDeliveries(b.consume(b.session(), queue, 3), "C", "D")
}

func TestADeletedQueueEndsTheDeliveries(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	consumer := b.consume(b.session(), queue, 1)
	ended := make(chan error, 1)
	go func() {
		_, err := consumer.Next(t.Context())
		ended <- err
	}()
	b.withChannel(func(c *amqp.Channel) error { return b.deleteQueue(c, queue) })
	if err := check.Receive(t, ended, "the end of Next"); !errors.Is(err, rabbitmq.ErrCancelled) {
		t.Errorf("Next returned %v", err)
	}
}

// TestStopRequeuesOnlyWhatNextHasNotReturned: the messages that Next has returned stay
// unacknowledged.
func TestStopRequeuesOnlyWhatNextHasNotReturned(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	b.put(queue, "A", "B", "C", "D")
	s := b.session()
	consumer := b.consume(s, queue, 10)
	out := b.wantDeliveries(consumer, "A", "B")
	consumer.Stop()
	other := b.consume(s, queue, 10)
	b.wantDeliveries(other, "C", "D")
	b.put(queue, "E")
	b.wantDeliveries(other, "E") // the stopped one gets no more
	if _, err := consumer.Next(t.Context()); !errors.Is(err, rabbitmq.ErrCancelled) {
		t.Errorf("Next returned %v", err)
	}
	b.ack(out[0])
	consumer.Close() // the broker requeues B
	b.wantDeliveries(other, "B")
}
