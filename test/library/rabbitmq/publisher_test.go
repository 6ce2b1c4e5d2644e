package rabbitmq_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// publishAll sends a batch, with a long timeout for its confirms.
func publishAll(t *testing.T, p *rabbitmq.Publisher, messages ...rabbitmq.Message) []publish.Result {
	t.Helper()
	return publishWithin(t, testTimeout, p, messages...)
}

// publishWithin sends a batch, and fails the test when Publish does not return.
func publishWithin(t *testing.T, timeout time.Duration, p *rabbitmq.Publisher, messages ...rabbitmq.Message) []publish.Result {
	t.Helper()
	results := make(chan []publish.Result, 1)
	go func() { results <- publish.All(p, messages, timeout) }()
	return receive(t, results, "the results of Publish")
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

func TestOnlyWhatNoQueueTakesIsReturned(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue := b.route("order.*", nil)
	batch := to(exchange, "order.created", "nobody.cares", "order.cancelled", "nobody.listens")
	p := b.publisher(b.session(), len(batch))

	// Twice: the returns of one batch must not be left for the next.
	for range 2 {
		expect(t, publishAll(t, p, batch...), publish.Confirmed, publish.Returned, publish.Confirmed, publish.Returned)
	}
	expect(t, publishAll(t, p, batch[0]), publish.Confirmed)
	for _, want := range []int{0, 2, 0, 2, 0} {
		if got := b.get(queue).MessageId; got != batch[want].ID {
			t.Errorf("got %s, want %s", got, batch[want].ID)
		}
	}
}

func TestAFullQueueRefusesAndTheChannelLivesOn(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue := b.route("#", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	p := b.publisher(b.session(), 1)
	// A quorum queue looks at its length a little late: the limit is soft.
	eventually(t, "the queue is full", func() bool {
		return publishAll(t, p, to(exchange, "order.created")...)[0].Outcome != publish.Confirmed
	})
	expect(t, publishAll(t, p, to(exchange, "order.created")...), publish.Refused)

	b.withChannel(func(c *amqp.Channel) error {
		_, err := c.QueuePurge(queue, false)
		return err
	})
	eventually(t, "there is room again", func() bool {
		return publishAll(t, p, to(exchange, "order.created")...)[0].Outcome == publish.Confirmed
	})
}

func TestAMissingExchangeIsUnknownAndTheReasonTells(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, _ := b.route("#", nil)
	s := b.session()
	sibling := b.publisher(s, 1)
	missing := name()
	hasReason := func(r publish.Result) bool {
		var reason *amqp.Error
		return errors.As(r.Err, &reason) && reason.Code == amqp.NotFound && reason.Server && strings.Contains(reason.Reason, missing)
	}
	// All results have the reason, unless the broker closed the channel while we were sending.
	eventually(t, "each message of the batch tells the reason", func() bool {
		results := publishAll(t, b.publisher(s, 3), to(missing, "a", "b", "c")...)
		if results[0].Outcome != publish.Unknown || errors.Is(results[0].Err, publish.ErrClosed) {
			t.Errorf("outcome %d (%v)", results[0].Outcome, results[0].Err)
		}
		return hasReason(results[0]) && hasReason(results[1]) && hasReason(results[2])
	})
	expect(t, publishAll(t, sibling, to(exchange, "a")...), publish.Confirmed)
}

func TestACutInMidBatchLeavesUnknownWhatWasNotConfirmed(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue := b.route("#", nil)
	proxy, url := b.proxy()
	k := b.keep(url)
	arrived, stored := b.deliveries(queue), map[string]bool{}
	arrive := func(id string) {
		for !stored[id] {
			stored[receive(t, arrived, "message "+id).MessageId] = true
		}
	}
	// The cut is made when the first message has arrived. It may still be late.
	eventually(t, "a cut in mid-batch", func() bool {
		batch := to(exchange, make([]string, 64)...)
		for i := range batch {
			batch[i].Body = make([]byte, rabbitmq.MaxBody)
		}
		p, results := b.publisher(k.next(), len(batch)), make(chan []publish.Result, 1)
		go func() { results <- publish.All(p, batch, testTimeout) }()
		arrive(batch[0].ID)
		proxy.Cut()

		unknown := 0
		for i, r := range receive(t, results, "the results of Publish") {
			switch {
			case r.Outcome == publish.Confirmed:
				arrive(batch[i].ID)
			case r.Outcome == publish.Unknown && r.Err != nil:
				unknown++
			case r.Outcome == publish.NotSent && errors.Is(r.Err, publish.ErrNotSent):
			default:
				t.Errorf("message %d: outcome %d (%v)", i, r.Outcome, r.Err)
			}
		}
		return unknown > 0
	})
}

// deliveries takes everything from the queue while the test runs.
func (b brokerTest) deliveries(queue string) <-chan amqp.Delivery {
	b.Helper()
	channel, err := b.conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = channel.Close() })
	return deliveries
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
		if r := receive(t, results, "an answer"); r.Outcome != publish.Returned {
			t.Fatalf("outcome %d (%v)", r.Outcome, r.Err)
		}
	}
	opened := proxy.opened.Load()
	if opened < 2 {
		t.Errorf("%d channels for 10 windows", opened)
	}
	eventually(t, "the channels that are not used any more are closed", func() bool { return proxy.closed.Load() >= opened-1 })
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

// TestAMessageThatClosesTheChannelEndsThePublisher, and no other publisher of the session. The
// broker closes the channel because nobody may publish to an internal exchange.
func TestAMessageThatClosesTheChannelEndsThePublisher(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, _ := b.route("#", nil)
	s := b.session()
	p := b.publisher(s, 10)
	expect(t, publishAll(t, p, to(exchange, "a")...), publish.Confirmed)
	batch := to(exchange, "a", "b", "c")
	batch[0].Exchange = rand.Text()
	b.withChannel(func(c *amqp.Channel) error {
		return c.ExchangeDeclare(batch[0].Exchange, "fanout", false, false, true, false, nil)
	})
	defer b.withChannel(func(c *amqp.Channel) error { return c.ExchangeDelete(batch[0].Exchange, false, false) })
	for i, r := range publishAll(t, p, batch...) {
		if !errors.Is(r.Err, publish.ErrClosed) || r.Outcome != publish.Unknown && (i == 0 || r.Outcome != publish.NotSent) {
			t.Errorf("message %d: outcome %d (%v)", i, r.Outcome, r.Err)
		}
	}
	for _, r := range publishAll(t, p, batch[1:]...) {
		if r.Outcome != publish.NotSent || !errors.Is(r.Err, publish.ErrNotSent) {
			t.Errorf("after the end: outcome %d (%v)", r.Outcome, r.Err)
		}
	}
	expect(t, publishAll(t, b.publisher(s, 10), batch[1:]...), publish.Confirmed, publish.Confirmed)
}
