package rabbitmq_test

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
)

// publishAll sends a batch, and waits for its answers.
func publishAll(t *testing.T, p *rabbitmq.Publisher, messages ...rabbitmq.Message) []publish.Result {
	t.Helper()
	results := make(chan []publish.Result, 1)
	go func() { results <- publish.All(p, messages, check.Limit) }()
	return check.Receive(t, results, "the results of Publish")
}

// expect compares the outcomes. Every outcome but Confirmed must have a reason.
func expect(t *testing.T, results []publish.Result, outcomes ...publish.Outcome) {
	t.Helper()
	if len(results) != len(outcomes) {
		t.Fatalf("%d results of %d messages", len(results), len(outcomes))
	}
	for i, r := range results {
		if r.Outcome != outcomes[i] {
			t.Errorf("message %d: outcome %d (%v), want %d", i, r.Outcome, r.Err, outcomes[i])
		}
		if (r.Err == nil) != (r.Outcome == publish.Confirmed) {
			t.Errorf("message %d: outcome %d with the reason %v", i, r.Outcome, r.Err)
		}
	}
}

// to makes a message for each key.
func to(exchange string, keys ...string) (messages []rabbitmq.Message) {
	for _, key := range keys {
		messages = append(messages, rabbitmq.Message{ID: name(), Exchange: exchange, RoutingKey: key})
	}
	return messages
}

// TestMoreThanTheWindowGoesOnAnotherChannel: while no return was seen, so that none is dropped.
func TestMoreThanTheWindowGoesOnAnotherChannel(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, proxy := b.exchange(), b.countingProxy()
	p := b.publisher(b.keep(proxy.url).next(), 100)
	const batches = 10
	results := make(chan publish.Result, batches*100)
	for range batches { // written before the first return arrives, or not
		p.Publish(t.Context(), to(exchange, make([]string, 100)...), func(_ int, r publish.Result) { results <- r })
	}
	for range cap(results) {
		if r := check.Receive(t, results, "an answer"); r.Outcome != publish.Returned {
			t.Fatalf("outcome %d (%v)", r.Outcome, r.Err)
		}
	}
	opened := proxy.opened.Load()
	if opened < 2 {
		t.Errorf("%d channels for 10 windows", opened)
	}
	check.Await(t, "the channels that are not used any more are closed", func() bool { return proxy.closed.Load() >= opened-1 })
}

// countingProxy counts the channels that are opened and closed.
type countingProxy struct {
	url            string
	opened, closed atomic.Int32
}

func (b brokerTest) countingProxy() *countingProxy {
	b.Helper()
	proxy, url := b.proxy()
	c := &countingProxy{url: url}
	proxy.DropReply(func(request []byte) bool { // only counts, and drops nothing
		c.opened.Add(int32(bytes.Count(request, []byte{0, 20, 0, 10}))) // the methods as they are encoded
		c.closed.Add(int32(bytes.Count(request, []byte{0, 20, 0, 40})))
		return false
	})
	return c
}

// TestAMessageThatClosesTheChannelEndsItsPublisher, and no other of the session. Nobody may publish
// to an internal exchange, so this is the message's fault. A missing exchange may come.
func TestAMessageThatClosesTheChannelEndsItsPublisher(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange := b.route()
	internal := b.newName("exchange")
	b.withChannel(func(c *amqp.Channel) error {
		return c.ExchangeDeclare(internal, "fanout", true, false, true, false, nil)
	})
	s := b.session()
	sibling := b.publisher(s, 1)
	for destination, want := range map[string]struct {
		code   int
		closes bool
	}{name(): {amqp.NotFound, false}, internal: {amqp.AccessRefused, true}} {
		hasReason := func(r publish.Result) bool {
			var reason *amqp.Error
			return errors.As(r.Err, &reason) && reason.Code == want.code && reason.Server && strings.Contains(reason.Reason, destination)
		}
		// All results have the reason, unless the broker closed the channel while we were sending.
		check.Await(t, "each message of the batch tells the reason", func() bool {
			p := b.publisher(s, 3)
			results := publishAll(t, p, to(destination, "a", "b", "c")...)
			if r := results[0]; r.Outcome != publish.Unknown || errors.Is(r.Err, publish.ErrClosed) != want.closes {
				t.Errorf("outcome %d (%v)", r.Outcome, r.Err)
			}
			for _, r := range publishAll(t, p, to(exchange, "b", "c")...) {
				if r.Outcome != publish.NotSent || !errors.Is(r.Err, publish.ErrNotSent) {
					t.Errorf("after the end: outcome %d (%v)", r.Outcome, r.Err)
				}
			}
			return hasReason(results[0]) && hasReason(results[1]) && hasReason(results[2])
		})
	}
	expect(t, publishAll(t, sibling, to(exchange, "a")...), publish.Confirmed)
	expect(t, publishAll(t, b.publisher(s, 1), to(exchange, "a")...), publish.Confirmed)
}
