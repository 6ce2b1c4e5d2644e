package rabbitmq_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
)

// browse reads a queue, whose name ends with .dlq, like one of dead letters.
func (b brokerTest) browse(s session, queue string) *rabbitmq.DeadLetters {
	b.Helper()
	browser, err := s.DeadLetters(rabbitmq.Queue{Name: strings.TrimSuffix(queue, ".dlq")})
	check.Must(b, err)
	return browser
}

// browseNext gets at most n messages.
func (b brokerTest) browseNext(browser *rabbitmq.DeadLetters, n int) (messages []rabbitmq.DeadLetter) {
	b.Helper()
	for range n {
		taken, ok, err := browser.Next()
		check.Must(b, err)
		if !ok {
			break
		}
		messages = append(messages, taken)
	}
	return messages
}

func (b brokerTest) giveBack(browser *rabbitmq.DeadLetters) {
	b.Helper()
	check.Must(b, browser.Close())
}

// deadLetterQueue makes a queue of n messages with the arguments of a dead-letter queue. Without
// the delivery limit, RabbitMQ 3.10 would requeue messages behind the others.
func (b brokerTest) deadLetterQueue(n int) (queue string, ids []string) {
	b.Helper()
	queue = b.queue(amqp.Table{"x-delivery-limit": 1_000_000_000})
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
	}
	b.put(queue, ids...)
	return queue, ids
}

func takenIDs(messages []rabbitmq.DeadLetter) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// TestGiveBackKeepsTheOrder: when Close returns, the messages are ready in their order. The
// broker stores them after it has answered everything else, and does not keep the order of more
// than 32.
func TestGiveBackKeepsTheOrder(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue, ids := b.deadLetterQueue(200)
	for range 10 {
		browser := b.browse(b.session(), queue)
		got := takenIDs(b.browseNext(browser, 1000))
		if browser.Count() != len(ids) || !slices.Equal(got, ids) {
			t.Fatalf("%d messages, and in the queue are\n%v, want\n%v", browser.Count(), got, ids)
		}
		b.giveBack(browser)
	}
}

// TestALongQueueIsBrowsedLikeAShortOne: after the first messages, several are taken at a time.
func TestALongQueueIsBrowsedLikeAShortOne(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue, ids := b.deadLetterQueue(500)
	one := b.browse(b.session(), queue)
	held := b.browseNext(one, 300)
	if got := takenIDs(held); !slices.Equal(got, ids[:300]) {
		t.Errorf("it sees %v", got)
	}
	b.put(queue, "later")
	for _, m := range held[:200] {
		check.Must(t, one.Discard(m))
	}
	if got := takenIDs(b.browseNext(one, 1000)); !slices.Equal(got, ids[300:]) {
		t.Errorf("after the removals it sees %v", got)
	}
	b.giveBack(one)
	got := takenIDs(b.browseNext(b.browse(b.session(), queue), 1000))
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(append(ids[200:], "later")))) {
		t.Errorf("left are %v", got)
	}
}

// TestBrowsersOfALongQueueShareItsMessages, and each of them ends.
func TestBrowsersOfALongQueueShareItsMessages(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue, ids := b.deadLetterQueue(500)
	one, other := b.browse(b.session(), queue), b.browse(b.session(), queue)
	first := takenIDs(b.browseNext(one, 100))
	rest := takenIDs(b.browseNext(other, 1000))
	first = append(first, takenIDs(b.browseNext(one, 1000))...)
	if got := slices.Concat(first, rest); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(ids))) {
		t.Errorf("they see %d and %d messages of %d", len(first), len(rest), len(ids))
	}
}

func TestBrowsingNoQueueFails(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	s, missing := b.session(), name()
	if _, err := s.DeadLetters(rabbitmq.Queue{Name: missing}); !errors.Is(err, rabbitmq.ErrNoQueue) || !strings.Contains(err.Error(), missing) {
		t.Errorf("DeadLetters returned %v", err)
	}
	// The error is the same if the queue is deleted while it is browsed.
	queue := b.queue(nil)
	b.put(queue, "A")
	browser := b.browse(s, queue)
	b.withChannel(func(c *amqp.Channel) error { return b.deleteQueue(c, queue) })
	if _, _, err := browser.Next(); !errors.Is(err, rabbitmq.ErrNoQueue) {
		t.Errorf("Next returned %v", err)
	}
}

func TestDeathIsTheLastDeadLettering(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	deaths := []any{
		amqp.Table{"reason": "delivery_limit", "queue": "main", "time": at},
		amqp.Table{"reason": "expired", "queue": "retry", "time": at.Add(-time.Minute)},
	}
	for name, test := range map[string]struct {
		headers map[string]any
		want    rabbitmq.Death
	}{
		"RabbitMQ 3 puts it first": {map[string]any{"x-death": deaths, "x-first-death-reason": "expired"}, rabbitmq.Death{Reason: "delivery_limit", Queue: "main", Time: at}},
		"RabbitMQ 4 says which it is": {
			map[string]any{"x-death": []any{deaths[1], deaths[0]}, "x-last-death-reason": "delivery_limit", "x-last-death-queue": "main"},
			rabbitmq.Death{Reason: "delivery_limit", Queue: "main", Time: at},
		},
		"without the list":  {map[string]any{"x-last-death-reason": "rejected"}, rabbitmq.Death{Reason: "rejected"}},
		"a copy has none":   {rabbitmq.Message{Headers: map[string]any{"x-death": deaths}}.Copy().Headers, rabbitmq.Death{}},
		"nonsense is none":  {map[string]any{"x-death": []any{"x", int32(7)}}, rabbitmq.Death{}},
		"nonsense in a one": {map[string]any{"x-death": []any{amqp.Table{"reason": int64(1)}}}, rabbitmq.Death{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, died := rabbitmq.Message{Headers: test.headers}.Death()
			if got != test.want || died != (test.want.Reason != "") {
				t.Errorf("got %+v, %t", got, died)
			}
		})
	}
}
