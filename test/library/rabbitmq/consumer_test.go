package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// runConsumer runs a consumer until the test ends.
func (b brokerTest) runConsumer(url string, q rabbitmq.Queue, h rabbitmq.HandlerFunc) *rabbitmq.Consumer {
	b.Helper()
	consumer, err := rabbitmq.NewConsumer(url, q, h)
	check.Must(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := check.Receive(b.T, ended, "the end of Run"); err != nil {
			b.Errorf("Run returned %v", err)
		}
	})
	return consumer
}

// TestP9WhatHasNoCopyStopsNoOther: during an alarm the broker takes no copies. The message waits,
// and other messages go on. Two messages fail: the broker takes the first copy, and then blocks.
func TestP9WhatHasNoCopyStopsNoOther(t *testing.T) {
	t.Parallel()
	b := newBlockableBroker(t)
	q := rabbitmq.Queue{Name: name(), Exchange: b.exchange(), Topics: []string{"#"}, Retry: []time.Duration{time.Millisecond}}
	check.Must(t, b.session().Declare(q.Topology()))
	b.put(q.Name, "bad 1", "bad 2", "good 1", "good 2")
	b.alarm(true)
	isBad := func(m rabbitmq.Message) bool {
		return strings.HasPrefix(m.ID, "bad") && m.Headers["retry-count"] == nil
	}
	var handled sync.Map
	consumer := b.runConsumer(b.url, q, func(_ context.Context, batch []rabbitmq.Message) error {
		if slices.ContainsFunc(batch, isBad) {
			return errors.New("bad")
		}
		for _, m := range batch {
			handled.Store(m.ID, true)
		}
		return nil
	})
	outcomes := func() map[string]uint64 { done, _ := consumer.Stats(); return done }
	check.Await(t, "the others are handled", func() bool { return outcomes()["handled"] >= 2 })
	if n := outcomes()["retried"]; n > 1 {
		t.Errorf("%d copies were confirmed during the alarm", n)
	}
	b.alarm(false)
	// A copy may come twice: if the alarm lasts longer than an attempt, it is made again.
	check.Await(t, "all are handled", func() bool { return outcomes()["handled"] >= 4 && outcomes()["retried"] == 2 })
	for _, id := range []string{"bad 1", "bad 2", "good 1", "good 2"} {
		if _, is := handled.Load(id); !is {
			t.Errorf("%s is not handled", id)
		}
	}
}

// deleteTopology deletes what a consumer has declared.
func (b brokerTest) deleteTopology(declared rabbitmq.Topology) {
	b.withChannel(func(c *amqp.Channel) error {
		for _, e := range declared.Exchanges {
			if err := c.ExchangeDelete(e.Name, false, false); err != nil {
				return err
			}
		}
		for _, queue := range declared.Queues {
			if err := b.deleteQueue(c, queue.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// copiesTest is a consumer that cannot handle what begins with "bad", and dead-letters what begins
// with "malformed". Both of its connections go through the proxy.
type copiesTest struct {
	brokerTest
	q        rabbitmq.Queue
	retry    string // the retry queue, and its exchange
	consumer *rabbitmq.Consumer
	proxy    *servers.Proxy
}

func newCopiesTest(t *testing.T) copiesTest {
	t.Helper()
	b := newBrokerTest(t)
	q := rabbitmq.Queue{
		Name: name(), Exchange: b.exchange(), Topics: []string{"#"}, Retry: []time.Duration{time.Hour},
		Check: func(m rabbitmq.Message) error {
			if strings.HasPrefix(m.ID, "malformed") {
				return errors.New("malformed")
			}
			return nil
		},
	}
	b.Cleanup(func() { b.deleteTopology(q.Topology()) })
	proxy, through := b.proxy()
	c := copiesTest{brokerTest: b, q: q, retry: q.Name + ".retry.1h", proxy: proxy}
	c.consumer = b.runConsumer(through, q, func(_ context.Context, batch []rabbitmq.Message) error {
		for _, m := range batch {
			if strings.HasPrefix(m.ID, "bad") {
				return errors.New("bad")
			}
		}
		return nil
	})
	check.Await(t, "the consumer takes messages", func() bool { return c.consumer.Health() == nil && proxy.Accepted() == 2 })
	return c
}

func (c copiesTest) await(outcome string, n uint64) {
	c.Helper()
	check.Await(c.T, fmt.Sprintf("%d are %s", n, outcome), func() bool { done, _ := c.consumer.Stats(); return done[outcome] == n })
}

func (c copiesTest) wantSessions(n int) {
	c.Helper()
	if got := c.proxy.Accepted(); got != n {
		c.Errorf("%d sessions, want %d", got, n)
	}
}

// TestP9CopiesGoOnAfterARefusal: a full retry queue ends neither the session nor the copies to
// another queue. When the queue has room again, it gets its copies. Meanwhile the messages that
// wait stay unacknowledged, also when all others are acknowledged together.
func TestP9CopiesGoOnAfterARefusal(t *testing.T) {
	t.Parallel()
	c := newCopiesTest(t)
	full := c.boundQueue(c.retry, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	c.put(full, "filler 1", "filler 2") // the limit is soft
	c.put(c.q.Name, "bad 1", "good 0", "bad 2")
	check.Await(t, "copies are refused", func() bool { return c.consumer.CopyFailures() >= 4 })
	var good []string
	for i := range 100 {
		good = append(good, fmt.Sprint("good ", i))
	}
	c.put(c.q.Name, append(good, "malformed")...)
	c.await("handled", 101)
	c.await("dead_lettered", 1)
	c.await("retried", 0)
	c.wantSessions(2)
	c.withChannel(func(ch *amqp.Channel) error { return ch.QueueUnbind(full, "", c.retry, nil) })
	c.await("retried", 2)
	c.wantSessions(2)
}

// boundQueue is another queue behind an exchange.
func (c copiesTest) boundQueue(exchange string, arguments amqp.Table) (queue string) {
	c.Helper()
	queue = c.queue(arguments)
	c.withChannel(func(ch *amqp.Channel) error { return ch.QueueBind(queue, "", exchange, false, nil) })
	return queue
}

// TestACopyThatFindsNoQueueIsPublishedAgain: somebody has deleted the queue, or its exchange. The
// next session declares it again.
func TestACopyThatFindsNoQueueIsPublishedAgain(t *testing.T) {
	t.Parallel()
	c := newCopiesTest(t)
	c.withChannel(func(ch *amqp.Channel) error { return c.deleteQueue(ch, c.retry) })
	c.put(c.q.Name, "bad 1")
	c.await("retried", 1)
	c.wantSessions(3)
	c.withChannel(func(ch *amqp.Channel) error { return ch.ExchangeDelete(c.q.Name+".dlx", false, false) })
	c.put(c.q.Name, "malformed", "good")
	c.await("dead_lettered", 1)
	c.await("handled", 1)
	c.wantSessions(4)
	if id := c.get(c.retry).MessageId; id != "bad 1" {
		t.Errorf("the retry queue has %s", id)
	}
	if id := c.get(c.q.DeadLetterQueue()).MessageId; id != "malformed" {
		t.Errorf("the dead letter is %s", id)
	}
}
