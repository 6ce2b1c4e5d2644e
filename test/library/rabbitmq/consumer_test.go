package rabbitmq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
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
