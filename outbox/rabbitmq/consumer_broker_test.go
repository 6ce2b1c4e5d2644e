package rabbitmq_test

import (
	"bytes"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestAConsumerThatDeclaresNothing waits until somebody else has declared its queue.
func TestAConsumerThatDeclaresNothing(t *testing.T) {
	t.Parallel()
	c := newConsumerTest(t, func(q *rabbitmq.Queue) { q.NoDeclare = true }, failing("bad", errFake))
	brokertest.Do(t, func(ch *amqp.Channel) error {
		for _, q := range c.queue.Topology().Queues {
			if _, err := ch.QueueDelete(q.Name, false, false, false); err != nil {
				return err
			}
		}
		return nil
	})
	c.start()
	eventually(t, "the consumer has tried, on both connections", func() bool { return c.urls.Load() > 3 })
	if _, exists, err := openSession(t).CountReady(c.queue.Name); exists || err != nil {
		t.Errorf("the consumer has declared its queue, error %v", err)
	}
	must(t, openSession(t).Declare(c.queue.Topology()))
	c.publish("1", "bad")
	c.await(1, 1, 0)
}

// TestABindingThatNobodyWantsIsRemoved each time that the consumer declares. Without FormerTopics it
// stays. A message that comes all the same is handled, and named.
func TestABindingThatNobodyWantsIsRemoved(t *testing.T) {
	t.Parallel()
	c := newConsumerTest(t, func(q *rabbitmq.Queue) { q.Topics = []string{"order.created", "order.cancelled"} }, nil)
	for _, former := range [][]string{nil, {"order.cancelled"}} {
		c.queue.Topics, c.queue.FormerTopics = []string{"order.created"}, former
		c.start()
		c.publish("1")
		c.await(1, 0, 0) // it has declared
		brokertest.Publish(t, c.queue.Exchange, "order.cancelled", amqp.Publishing{MessageId: "2"})
		c.publish("3")
		if former == nil {
			c.await(3, 0, 0)
		} else {
			c.await(2, 0, 0)
		}
		c.wantEmpty()
	}
	s, old, log := openSession(t), c.queue, &bytes.Buffer{}
	old.Topics, old.FormerTopics, c.queue.Logger = []string{"order.cancelled"}, nil, slog.New(slog.NewTextHandler(log, nil))
	must(t, s.Declare(old.Topology()))
	for _, id := range []string{"4", "5"} {
		brokertest.Publish(t, c.queue.Exchange, "order.cancelled", amqp.Publishing{MessageId: id})
	}
	c.start()
	c.await(2, 0, 0)
	must(t, s.Declare(old.Topology()))
	must(t, s.Declare(c.queue.Topology()))
	brokertest.Publish(t, c.queue.Exchange, "order.cancelled", amqp.Publishing{MessageId: "6"})
	c.publish("7")
	c.await(3, 0, 0)
	c.wantEmpty()
	if n := strings.Count(log.String(), "a message of a former topic has come"); n != 1 {
		t.Errorf("%d lines: %s", n, log)
	}
}

// TestWhatWaitsForLongIsGivenBack before the broker's time-out would end the session. From then on,
// fewer come at a time: RabbitMQ 3 counts each return, and messages would become dead letters.
func TestWhatWaitsForLongIsGivenBack(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	const timeout = 2 * time.Second
	c := newConsumerTest(t, func(q *rabbitmq.Queue) { q.ConsumerTimeout, q.HandleTimeout = timeout, timeout/2 }, func(batch []rabbitmq.Message) error {
		if batch[0].ID == "slow" || batch[0].ID == "1" {
			began <- struct{}{}
			<-goOn
		}
		return nil
	})
	c.start()
	c.publish("first") // from now on it takes batches
	c.await(1, 0, 0)
	c.publish("slow")
	receive(t, began, "call")
	c.publish("1", "2", "3")
	c.awaitTaken()
	time.Sleep(timeout/2 + 100*time.Millisecond) // they wait for their turn
	goOn <- struct{}{}
	receive(t, began, "call")
	if ready, _, err := openSession(t).CountReady(c.queue.Name); err != nil || ready != 2 {
		t.Errorf("%d of 2 messages are still in the queue, error %v", ready, err)
	}
	close(goOn)
	c.await(5, 0, 0)
	if n := c.consumer.Received(); n <= 5 {
		t.Errorf("%d messages were delivered: none was given back", n)
	}
	c.wantEmpty()
}

// TestAMessageWithoutIDGetsOne from the queue's function, and keeps it.
func TestAMessageWithoutIDGetsOne(t *testing.T) {
	t.Parallel()
	made := func(m rabbitmq.Message) string { return "of " + string(m.Body) }
	c := newConsumerTest(t, func(q *rabbitmq.Queue) { q.ID = made }, failing("of me", errFake))
	brokertest.Publish(t, c.queue.Exchange, "order.created", amqp.Publishing{Body: []byte("me")})
	c.start()
	c.await(0, 2, 0)
	c.handler.set(func(h *fakeHandler) { h.result = nil })
	c.await(1, 2, 0)
	for len(c.handler.calls) > 0 {
		if m := (<-c.handler.calls)[0]; m.ID != "of me" {
			t.Errorf("the id is %q", m.ID)
		}
	}
	c.wantEmpty()
}

// TestAMessageThatCannotBeCopiedIsOneLineOfTheLog, which says what happened: the broker makes it a
// dead letter.
func TestAMessageThatCannotBeCopiedIsOneLineOfTheLog(t *testing.T) {
	t.Parallel()
	log := &bytes.Buffer{}
	c := newConsumerTest(t, func(q *rabbitmq.Queue) { q.Logger = slog.New(slog.NewTextHandler(log, nil)) }, failing("heavy", errFake))
	brokertest.Publish(t, c.queue.Exchange, "order.created",
		amqp.Publishing{MessageId: "heavy", Headers: amqp.Table{"h": strings.Repeat("v", 93_000)}})
	c.start()
	c.await(0, 0, 1)
	c.wantEmpty()
	if text := log.String(); strings.Count(text, "message_id=heavy") != 1 || strings.Contains(text, "waits for a retry") ||
		!strings.Contains(text, "failure_code=rejected") || !strings.Contains(text, "at most 65536; the failure: the handler has failed") {
		t.Error(text)
	}
}

// TestP9AnUnreadableMessageIsADeadLetterAtOnce, and so is one that is too large: the broker moves
// it, because no copy can be made. It ends no session. An operator sees it, hides no other with it,
// and can discard it. What is not discarded is given back.
func TestP9AnUnreadableMessageIsADeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	deep := amqp.Table{}
	for range 64 {
		deep = amqp.Table{"t": deep}
	}
	c := newConsumerTest(t, nil, failing("bad", rabbitmq.ErrPermanent))
	large := make([]byte, rabbitmq.MaxBody+1)
	brokertest.Publish(t, c.queue.Exchange, "order.created",
		amqp.Publishing{MessageId: "deep", Body: []byte("body"), Headers: deep},
		amqp.Publishing{MessageId: "many", Body: []byte("body"), Headers: amqp.Table{"list": make([]any, 9000)}},
		amqp.Publishing{MessageId: "large", Body: large})
	c.publish("1", "bad", "2")
	c.start()
	c.await(2, 0, 4)
	if received, sessions := c.consumer.Received(), c.urls.Load(); received != 6 || sessions != 2 {
		t.Errorf("%d deliveries of 6 messages, %d connections", received, sessions)
	}
	eventually(t, "four dead letters: the broker itself moves what is rejected, and takes its time", func() bool {
		ready, _, err := openSession(t).CountReady(c.queue.DeadLetterQueue())
		return err == nil && ready == 4
	})
	letters := c.open()
	if n := letters.Count(); n != 4 {
		t.Errorf("%d dead letters are counted", n)
	}
	codes := map[string]string{}
	for range 4 {
		l := c.next(letters)
		codes[l.ID] = l.Code
		switch l.Code {
		case rabbitmq.CodePermanent:
			continue // it is given back
		case rabbitmq.CodeTooLarge:
			if len(l.Body) != len(large) {
				t.Errorf("the large one has %d bytes", len(l.Body))
			}
		default:
			if r := letters.Replay(t.Context(), l, nil); r.Outcome != publish.Invalid || len(l.Body) != 4 || l.Reason == "" {
				t.Errorf("replayed with %+v, reason %q", r, l.Reason)
			}
		}
		must(t, letters.Discard(l))
	}
	want := map[string]string{
		"deep": rabbitmq.CodeUnreadable, "many": rabbitmq.CodeUnreadable, "large": rabbitmq.CodeTooLarge, "bad": rabbitmq.CodePermanent,
	}
	if !maps.Equal(codes, want) {
		t.Errorf("the dead letters are %v", codes)
	}
	c.close(letters)
	c.deadLetter("bad")
}
