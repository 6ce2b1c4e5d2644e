package publishtest

import (
	"crypto/rand"
	"errors"
	"slices"
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

// publish publishes a batch, with a long timeout.
func (c contract) publish(p publish.Publisher, messages ...publish.Message) []publish.Result {
	c.Helper()
	return c.publishWithin(limit, p, messages...)
}

// publishWithin fails the test if Publish does not return, or does not return one result for each
// message.
func (c contract) publishWithin(timeout time.Duration, p publish.Publisher, messages ...publish.Message) []publish.Result {
	c.Helper()
	ended := make(chan []publish.Result, 1)
	go func() { ended <- p.Publish(messages, timeout) }()
	results := receive(c, ended, "the results of Publish")
	if len(results) != len(messages) {
		c.Fatalf("%d results for %d messages", len(results), len(messages))
	}
	for i, r := range results {
		if (r.Err == nil) != (r.Outcome == publish.Confirmed) {
			c.Errorf("message %d is %s, with the reason %v", i, names[r.Outcome], r.Err)
		}
	}
	return results
}

var names = map[publish.Outcome]string{
	publish.Unknown: "Unknown", publish.Confirmed: "Confirmed", publish.Returned: "Returned",
	publish.Refused: "Refused", publish.Invalid: "Invalid",
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
	for i, r := range results {
		if r.Outcome != want[i] {
			c.Fatalf("message %d of %d is %s (%v), want %s", i, len(results), names[r.Outcome], r.Err, names[want[i]])
		}
	}
}

// expectReason requires that all results are Unknown for this reason.
func (c contract) expectReason(results []publish.Result, reason error) {
	c.Helper()
	c.expectAll(results, publish.Unknown)
	for i, r := range results {
		if !errors.Is(r.Err, reason) {
			c.Fatalf("message %d of %d: the reason is %q, want %q", i, len(results), r.Err, reason)
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
