package publishtest

import (
	"slices"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

func isUnknown(r publish.Result) bool { return r.Outcome == publish.Unknown }

func (c contract) cut() { c.interrupt(func() { c.Cut(c.T) }) }

func (c contract) killed() { c.interrupt(func() { c.Restart(c.T) }) }

// interrupt publishes until the server is away. The server must have all confirmed messages. The
// unknown ones can be published again.
func (c contract) interrupt(interrupt func()) {
	for _, sent := range c.publishUntil(interrupt) {
		var confirmed, unknown []publish.Message
		for i, r := range sent.results {
			switch {
			case r.Outcome == publish.Confirmed && r.Err == nil:
				confirmed = append(confirmed, sent.messages[i])
			case r.Outcome == publish.Unknown && r.Err != nil:
				unknown = append(unknown, sent.messages[i])
			default:
				c.Fatalf("message %d is %s, with the reason %v", i, names[r.Outcome], r.Err)
			}
		}
		c.Logf("%d confirmed, %d unknown", len(confirmed), len(unknown))
		c.stored(confirmed...)
		c.expectReason(c.publish(sent.publisher, unknown...), publish.ErrNotSent)
		c.confirm(c.publisher(), unknown...)
		c.stored(sent.messages...)
	}
}

// sent is what one publisher has published.
type sent struct {
	publisher publish.Publisher
	messages  []publish.Message
	results   []publish.Result
}

// publishUntil publishes with two publishers of a session until each has an Unknown. One publishes
// small batches, the other large ones. When the first small batch has its outcomes, it calls
// interrupt: then the other publisher is in the middle of a large batch.
func (c contract) publishUntil(interrupt func()) (all []sent) {
	session, began, ended := c.Connect(c.T), make(chan struct{}), make(chan sent, 2)
	small, large := c.publisherOf(session), c.publisherOf(session)
	go func() { ended <- c.publishUntilUnknown(small, 20, sync.OnceFunc(func() { close(began) })) }()
	go func() { ended <- c.publishUntilUnknown(large, window, func() {}) }()
	receive(c, began, "the end of the first batch")
	interrupt()
	for range 2 {
		all = append(all, receive(c, ended, "an Unknown, after the server was away"))
	}
	return all
}

// publishUntilUnknown publishes batch after batch. After each batch it calls the function after.
func (c contract) publishUntilUnknown(p publish.Publisher, size int, after func()) sent {
	s := sent{publisher: p}
	for c.Context().Err() == nil && !slices.ContainsFunc(s.results[max(0, len(s.results)-size):], isUnknown) {
		batch := c.batch(size)
		s.messages = append(s.messages, batch...)
		s.results = append(s.results, p.Publish(batch, limit)...)
		after()
	}
	return s
}

// oneTimeout would fail with one timeout for each message: the test does not wait for so long.
func (c contract) oneTimeout() {
	p := c.publisher()
	resume := sync.OnceFunc(c.Silence(c.T))
	defer resume()
	c.expectReason(c.publishWithin(300*time.Millisecond, p, c.batch(window)...), publish.ErrTimeout)
}

func (c contract) nothingAfterTimeout() {
	p, unsent := c.publisher(), c.batch(3)
	resume := c.unknown(p)
	defer resume()
	c.expectReason(c.publish(p, unsent...), publish.ErrNotSent)
	resume()
	c.expectReason(c.publish(p, unsent...), publish.ErrNotSent)
	c.notStored(unsent...)
}

func (c contract) nothingAfterCut() {
	unsent := c.batch(3)
	for _, sent := range c.publishUntil(func() { c.Cut(c.T) }) {
		for range 2 {
			c.expectReason(c.publish(sent.publisher, unsent...), publish.ErrNotSent)
		}
	}
	c.notStored(unsent...)
}

// unknown makes the server silent, and publishes a message. So its outcome is Unknown.
func (c contract) unknown(p publish.Publisher) (resume func()) {
	c.Helper()
	resume = sync.OnceFunc(c.Silence(c.T))
	c.expectReason(c.publishWithin(300*time.Millisecond, p, c.batch(1)...), publish.ErrTimeout)
	return resume
}
