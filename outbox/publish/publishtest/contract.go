package publishtest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

const (
	limit  = time.Minute // how long a test waits for an event before it fails
	window = 500         // of each publisher
)

// contract is the test of one clause.
type contract struct {
	*testing.T
	Broker
}

// publisher opens a session with a publisher.
func (c contract) publisher() publish.Publisher {
	c.Helper()
	return c.publisherOf(c.Connect(c.T))
}

func (c contract) publisherOf(s publish.Session) publish.Publisher {
	c.Helper()
	p, err := s.NewPublisher(window)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(p.Close)
	return p
}

// message returns a valid message.
func (c contract) message(group string) publish.Message {
	return publish.Message{
		ID: rand.Text(), Destination: c.Destination, Topic: "order.created", Group: group,
		ContentType: "application/json", AppID: "order-service", Timestamp: time.Now(),
		Headers: map[string]any{"traceparent": "00-1-2-01"}, Body: []byte(`{"order_id": "1"}`),
	}
}

// batch returns n valid messages, each in its own group.
func (c contract) batch(n int) (messages []publish.Message) {
	for range n {
		messages = append(messages, c.message(rand.Text()))
	}
	return messages
}

// publish publishes a batch and waits for all answers.
func (c contract) publish(p publish.Publisher, messages ...publish.Message) []publish.Result {
	c.Helper()
	return c.begin(c.Context(), p, messages...).all()
}

// sending is a batch that is being published.
type sending struct {
	contract
	results []publish.Result
	answers chan int // the messages that are answered
}

// begin publishes a batch, and does not wait. The test fails if a message has two answers.
func (c contract) begin(ctx context.Context, p publish.Publisher, messages ...publish.Message) sending {
	s := sending{c, make([]publish.Result, len(messages)), make(chan int, len(messages))}
	answered := make([]atomic.Bool, len(messages))
	go p.Publish(ctx, messages, func(i int, r publish.Result) {
		if answered[i].Swap(true) {
			c.Errorf("message %d is answered twice", i)
			return
		}
		if (r.Err == nil) != (r.Outcome == publish.Confirmed) {
			c.Errorf("message %d is %s, with the reason %v", i, names[r.Outcome], r.Err)
		}
		s.results[i] = r
		s.answers <- i
	})
	return s
}

// all waits for the answers to all messages.
func (s sending) all() []publish.Result {
	s.Helper()
	for range s.results {
		receive(s.contract, s.answers, "an answer")
	}
	return s.results
}

var names = map[publish.Outcome]string{
	publish.Unknown: "Unknown", publish.Confirmed: "Confirmed", publish.Returned: "Returned",
	publish.Refused: "Refused", publish.Invalid: "Invalid", publish.NotSent: "NotSent",
}

// confirm publishes a batch that must be Confirmed.
func (c contract) confirm(p publish.Publisher, messages ...publish.Message) {
	c.Helper()
	c.expectAll(c.publish(p, messages...), publish.Confirmed)
}

func (c contract) expectAll(results []publish.Result, want publish.Outcome) {
	c.Helper()
	c.expect(results, slices.Repeat([]publish.Outcome{want}, len(results)))
}

// expect reports the first outcome that is wrong.
func (c contract) expect(results []publish.Result, want []publish.Outcome) {
	c.Helper()
	if len(results) != len(want) {
		c.Fatalf("%d results, want %d", len(results), len(want))
	}
	for i, r := range results {
		if r.Outcome != want[i] { //nolint:gosec // they have the same length
			c.Fatalf("message %d of %d is %s (%v), want %s", i, len(results), names[r.Outcome], r.Err, names[want[i]]) //nolint:gosec // the same
		}
	}
}

// expectNotSent publishes a batch that must be NotSent.
func (c contract) expectNotSent(ctx context.Context, p publish.Publisher, messages ...publish.Message) {
	c.Helper()
	results := c.begin(ctx, p, messages...).all()
	c.expectAll(results, publish.NotSent)
	for i, r := range results {
		if !errors.Is(r.Err, publish.ErrNotSent) {
			c.Fatalf("message %d of %d: the reason is %q, want %q", i, len(results), r.Err, publish.ErrNotSent)
		}
	}
}

// receive waits for a value, and fails the test when none comes.
func receive[T any](c contract, values <-chan T, what string) (v T) {
	c.Helper()
	select {
	case v = <-values:
	case <-time.After(limit):
		c.Fatalf("%s: not within %s", what, limit)
	}
	return v
}
