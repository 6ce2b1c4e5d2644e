package publishtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

func (c contract) cut() { c.interrupt(func() { c.Cut(c.T) }) }

func (c contract) killed() { c.interrupt(func() { c.Restart(c.T) }) }

// interrupt publishes with two publishers of a session until the server is away. One publishes
// small batches, the other large ones. After the first small batch the other one is in the middle
// of a large batch. The server must have all confirmed messages. The others can be published again.
func (c contract) interrupt(interrupt func()) {
	session, began, ended := c.Connect(c.T), make(chan struct{}), make(chan sent, 2)
	small, large := c.publisherOf(session), c.publisherOf(session)
	go func() { ended <- c.publishUntilLost(small, 20, sync.OnceFunc(func() { close(began) })) }()
	go func() { ended <- c.publishUntilLost(large, window, func() {}) }()
	receive(c, began, "the end of the first batch")
	interrupt()
	var unsent []publish.Message
	for range 2 {
		s := receive(c, ended, "an Unknown or a NotSent, after the server was away")
		c.Logf("of %d messages %d are confirmed", len(s.all), len(s.confirmed))
		c.stored(s.confirmed...)
		batch := c.batch(3)
		c.expectNotSent(c.Context(), s.publisher, batch...)
		unsent = append(unsent, batch...)
		c.confirm(c.publisher(), without(s.all, s.confirmed)...)
		c.stored(s.all...)
	}
	c.notStored(unsent...)
}

// sent is what one publisher has published.
type sent struct {
	publisher      publish.Publisher
	all, confirmed []publish.Message
}

// publishUntilLost publishes batch after batch. After each batch it calls the function after.
func (c contract) publishUntilLost(p publish.Publisher, size int, after func()) sent {
	s := sent{publisher: p}
	for c.Context().Err() == nil && len(s.all) == len(s.confirmed) {
		batch := c.batch(size)
		s.all = append(s.all, batch...)
		for i, r := range c.publish(p, batch...) {
			switch r.Outcome {
			case publish.Confirmed:
				s.confirmed = append(s.confirmed, batch[i])
			case publish.Unknown, publish.NotSent:
			default:
				c.Errorf("message %d is %s (%v)", i, names[r.Outcome], r.Err)
			}
		}
		after()
	}
	return s
}

// late: neither the timeout of publish.All nor the silence ends a publisher.
func (c contract) late() {
	session := c.Connect(c.T)
	p, sibling := c.publisherOf(session), c.publisherOf(session)
	first, second, third := c.batch(3), c.batch(window), c.batch(3)
	c.confirm(p, first...)
	resume := sync.OnceFunc(c.Silence(c.T))
	defer resume()
	answers, others := c.begin(c.Context(), p, second...), c.begin(c.Context(), sibling, third...)
	for i, r := range publish.All(p, first, 300*time.Millisecond) {
		if r.Outcome != publish.NotSent && !errors.Is(r.Err, publish.ErrTimeout) {
			c.Errorf("message %d is %s (%v)", i, names[r.Outcome], r.Err)
		}
	}
	resume()
	c.expectAll(answers.all(), publish.Confirmed)
	c.expectAll(others.all(), publish.Confirmed)
	c.confirm(p, first...)
	c.stored(slices.Concat(first, second, third)...)
}

// contextEnds: before Publish, and while the server is silent.
func (c contract) contextEnds() {
	p, unsent := c.publisher(), c.batch(3)
	ctx, cancel := context.WithCancel(c.Context())
	resume := sync.OnceFunc(c.Silence(c.T))
	defer resume()
	batch := c.batch(window)
	sending := c.begin(ctx, p, batch...)
	time.AfterFunc(10*time.Millisecond, cancel)
	<-ctx.Done()
	c.expectNotSent(ctx, p, unsent...)
	resume()
	var confirmed []publish.Message
	for i, r := range sending.all() {
		switch r.Outcome {
		case publish.Confirmed:
			confirmed = append(confirmed, batch[i])
		case publish.NotSent:
			unsent = append(unsent, batch[i])
		default:
			c.Errorf("message %d is %s (%v)", i, names[r.Outcome], r.Err)
		}
	}
	c.stored(confirmed...)
	c.notStored(unsent...)
	c.confirm(p, c.batch(3)...)
}

// held publishes the held message before, because a server may have to meet its topic first.
func (c contract) held() {
	p := c.publisher()
	c.confirm(p, c.fill(c.Held))
	resume := sync.OnceFunc(c.Hold(c.T))
	defer resume()
	s := c.begin(c.Context(), p, append([]publish.Message{c.fill(c.Held)}, c.batch(100)...)...)
	for range 100 {
		if i := receive(c, s.answers, "an answer to the others"); s.results[i].Outcome != publish.Confirmed || i == 0 {
			c.Errorf("message %d is %s (%v)", i, names[s.results[i].Outcome], s.results[i].Err)
		}
	}
	resume()
	receive(c, s.answers, "the answer that was held back")
	c.expect(s.results[:1], []publish.Outcome{publish.Confirmed})
}
