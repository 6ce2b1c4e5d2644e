package rabbitmq_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func (b brokerTest) consume(s session, queue string, prefetch int) *rabbitmq.Deliveries {
	b.Helper()
	c, err := s.Deliveries(queue)
	if err == nil {
		err = c.Start(prefetch)
	}
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// wantDeliveries waits for deliveries of these messages, in this order.
func (b brokerTest) wantDeliveries(c *rabbitmq.Deliveries, ids ...string) (deliveries []rabbitmq.Delivery) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), testTimeout)
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
	if err := d.Ack(); err != nil {
		b.Fatal(err)
	}
}

func TestPrefetchLimitsUnacknowledgedMessages(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	b.put(queue, "A", "B", "C", "D", "E")
	s := b.session()
	bounded := b.consume(s, queue, 2)
	b.wantDeliveries(bounded, "A", "B")
	// The others are still in the queue: another consumer gets them.
	b.wantDeliveries(b.consume(s, queue, 10), "C", "D", "E")
}

func TestDeliveriesCarryTheWholeMessage(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue := b.route("#", nil)
	sent := rabbitmq.Message{
		ID: name(), Type: "order.created", Exchange: exchange, RoutingKey: "order.created", ContentType: "application/json",
		AppID: "order-service", Headers: map[string]any{"retry-count": int64(2)}, Body: []byte(`{}`),
	}
	s := b.session()
	expect(t, publishAll(t, b.publisher(s, 1), sent), publish.Confirmed)
	got := b.wantDeliveries(b.consume(s, queue, 1), sent.ID)[0]
	if got.Type != sent.Type || got.Exchange != exchange || got.RoutingKey != sent.RoutingKey || got.ContentType != sent.ContentType ||
		got.AppID != sent.AppID || got.Headers["retry-count"] != int64(2) || string(got.Body) != `{}` || got.Redelivered {
		t.Errorf("sent %+v, got %+v", sent, got)
	}
}

func TestUnacknowledgedMessagesAreRedelivered(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	b.put(queue, "A", "B")
	first := b.keep(b.url)
	out := b.wantDeliveries(b.consume(first.next(), queue, 10), "A", "B")
	if out[0].Redelivered || out[1].Redelivered {
		t.Error("a first delivery says that it is a repeat")
	}
	b.ack(out[1])
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	b.put(queue, "C")
	again := b.wantDeliveries(b.consume(b.session(), queue, 10), "A", "C")
	if !again[0].Redelivered || again[1].Redelivered {
		t.Errorf("redelivered: A %t, C %t", again[0].Redelivered, again[1].Redelivered)
	}
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
	if err := k.end(); err != nil {
		t.Fatal(err)
	}
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
	if err := receive(t, ended, "the end of Next"); !errors.Is(err, rabbitmq.ErrCancelled) {
		t.Errorf("Next returned %v", err)
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	s := b.session()
	consumer := b.consume(s, queue, 10)
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, enough)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := consumer.Next(ctx)
		ended <- err
	}()
	if err := receive(t, ended, "the end of Next"); !errors.Is(err, enough) {
		t.Errorf("Next returned %v", err)
	}

	// After that Next returns no message, even if there are some.
	b.put(queue, "A", "B")
	b.wantDeliveries(consumer, "A")
	b.publisher(s, 1) // an answer of the broker, which comes after B
	for range 100 {
		if d, err := consumer.Next(ctx); !errors.Is(err, enough) {
			t.Fatalf("took %s after the end: %v", d.ID, err)
		}
	}
	b.wantDeliveries(consumer, "B")
}

func TestConsumingFromNoQueueFails(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	missing := name()
	c, err := b.session().Deliveries(missing)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(1); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("Start returned %v", err)
	}
}

func TestRequeueGivesAMessageBack(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	b.put(queue, "A")
	consumer := b.consume(b.session(), queue, 1)
	if err := b.wantDeliveries(consumer, "A")[0].Requeue(); err != nil {
		t.Fatal(err)
	}
	if again := b.wantDeliveries(consumer, "A")[0]; !again.Redelivered {
		t.Error("it does not say that it is a repeat")
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

// TestStartAgainGivesAPlaceToAnotherMessage: what was received before Stop is still out, and may be
// acknowledged.
func TestStartAgainGivesAPlaceToAnotherMessage(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	b.put(queue, "A", "B", "C")
	consumer := b.consume(b.session(), queue, 1)
	first := b.wantDeliveries(consumer, "A")[0]
	consumer.Stop()
	if err := consumer.Start(1); err != nil {
		t.Fatal(err)
	}
	second := b.wantDeliveries(consumer, "B")[0]
	b.ack(first)
	b.ack(second)
	if last := b.wantDeliveries(consumer, "C")[0]; last.Redelivered {
		t.Error("C was delivered before")
	}
}

func TestStopAfterTheEndOfTheSession(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	proxy, url := b.proxy()
	s := b.keep(url).next()
	queue := b.queue(nil)
	consumer := b.consume(s, queue, 10)
	proxy.Cut()
	receive(t, s.ctx.Done(), "the end of the session's context")
	consumer.Stop()
	consumer.Close()
}
