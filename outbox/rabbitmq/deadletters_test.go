package rabbitmq_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// open reads the dead letters of the test's queue.
func (c *consumerTest) open() *rabbitmq.DeadLetters {
	c.Helper()
	letters, err := openSession(c.T).DeadLetters(c.queue)
	must(c, err)
	return letters
}

// next returns the next dead letter, which must be there.
func (c *consumerTest) next(letters *rabbitmq.DeadLetters) rabbitmq.DeadLetter {
	c.Helper()
	l, ok, err := letters.Next()
	if err != nil || !ok {
		c.Fatalf("there is a dead letter: %t, error %v", ok, err)
	}
	return l
}

func (c *consumerTest) close(letters *rabbitmq.DeadLetters) {
	c.Helper()
	must(c, letters.Close())
}

// TestADeadLetterIsReplayedToItsConsumer, which handles it as if it had never failed.
func TestADeadLetterIsReplayedToItsConsumer(t *testing.T) {
	t.Parallel()
	c := newConsumerTest(t, nil, failing("A", fmt.Errorf("%w: no such product", rabbitmq.ErrPermanent)))
	c.start()
	c.publish("A")
	c.await(0, 0, 1)
	c.handler.set(func(h *fakeHandler) { h.result = nil })
	letters := c.open()
	l := c.next(letters)
	if l.ID != "A" || l.Code != rabbitmq.CodePermanent || !strings.Contains(l.Reason, "no such product") || l.Retries != 0 ||
		!l.FailedAt.Equal(databaseTime) && l.FailedAt.Sub(databaseTime) > time.Minute || string(l.Body) != "body of A" {
		t.Errorf("%+v", l)
	}
	if r := letters.Replay(t.Context(), l, map[string]any{"x-operator-decision": "D"}); r.Outcome != publish.Confirmed {
		t.Fatalf("%+v", r)
	}
	if _, ok, err := letters.Next(); ok || err != nil {
		t.Errorf("there is another one: %t, error %v", ok, err)
	}
	c.close(letters)
	c.await(1, 0, 1)
	<-c.handler.calls
	m := receive(t, c.handler.calls, "the replayed message")[0]
	if m.ID != "A" || m.RoutingKey != "order.created" || string(m.Body) != "body of A" || m.Headers["traceparent"] != parent ||
		m.Headers["x-operator-decision"] != "D" || m.Headers[rabbitmq.FailureCodeHeader] != nil || m.Headers[rabbitmq.FailedAtHeader] != nil {
		t.Errorf("replayed %+v", m)
	}
	if left := brokertest.Take(c, c.queue.DeadLetterQueue()); len(left) > 0 {
		t.Errorf("%d are left", len(left))
	}
	c.wantEmpty()
}

// putDeadLetter puts a message where the consumer puts its dead letters.
func (c *consumerTest) putDeadLetter(p amqp.Publishing) {
	c.Helper()
	brokertest.Publish(c, c.queue.Name+".dlx", "order.created", p)
}

// TestWithoutACopyTheDeadLetterStays: no queue is bound behind the exchange.
func TestWithoutACopyTheDeadLetterStays(t *testing.T) {
	t.Parallel()
	c := newConsumerTest(t, nil, nil)
	c.putDeadLetter(amqp.Publishing{MessageId: "A"})
	brokertest.Do(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(c.queue.Name, false, false, false)
		return err
	})
	letters := c.open()
	if r := letters.Replay(t.Context(), c.next(letters), nil); r.Outcome != publish.Returned || r.Err == nil {
		t.Errorf("%+v", r)
	}
	c.close(letters)
	c.deadLetter("A")
}

// TestCutOffAfterTheConfirmNothingIsLost: the message is in both queues.
func TestCutOffAfterTheConfirmNothingIsLost(t *testing.T) {
	t.Parallel()
	c := newConsumerTest(t, nil, nil)
	c.putDeadLetter(amqp.Publishing{MessageId: "A"})
	letters := c.open()
	rabbitmq.AfterConfirm(letters, rabbitmq.Cut)
	if r := letters.Replay(t.Context(), c.next(letters), nil); r.Outcome != publish.Unknown {
		t.Errorf("%+v", r)
	}
	if err := letters.Close(); err == nil {
		t.Error("giving back through a cut connection succeeds")
	}
	c.deadLetter("A")
	if sent := brokertest.Take(c, c.queue.Name); len(sent) != 1 || sent[0].MessageId != "A" {
		t.Errorf("sent are %v", sent)
	}
}

// TestAnythingMayBeInTheQueueOfDeadLetters: other publishers may write there.
func TestAnythingMayBeInTheQueueOfDeadLetters(t *testing.T) {
	t.Parallel()
	c := newConsumerTest(t, nil, nil)
	c.putDeadLetter(amqp.Publishing{})
	c.putDeadLetter(amqp.Publishing{Headers: amqp.Table{
		rabbitmq.FailureCodeHeader: strings.Repeat("ü", 10_000), rabbitmq.FailureReasonHeader: strings.Repeat("x", 50_000),
		rabbitmq.FailedAtHeader: "yesterday", rabbitmq.RetryCountHeader: "many",
	}})
	for _, seconds := range []int64{-1 << 63, -1 << 40, 1 << 40, 1<<63 - 1} {
		c.putDeadLetter(amqp.Publishing{Headers: amqp.Table{
			"x-death": []any{amqp.Table{"reason": "rejected", "queue": "q", "time": time.Unix(seconds, 0)}},
		}})
	}
	letters := c.open()
	defer c.close(letters)
	for i := range 6 {
		l := c.next(letters)
		if want := []string{rabbitmq.CodeUnknown, l.Code, rabbitmq.CodeRejected}[min(i, 2)]; l.Code != want || l.Retries != 0 {
			t.Errorf("%d: code %s, want %s; %d retries", i, l.Code, want, l.Retries)
		}
		if len(l.Code) > 512 || len(l.Reason) > 512 || !utf8.ValidString(l.Code) || l.FailedAt.Year() < 1 || l.FailedAt.Year() > 9999 {
			t.Errorf("%d: a code of %d bytes, a reason of %d, failed at %v", i, len(l.Code), len(l.Reason), l.FailedAt)
		}
	}
}
