package publishtest

import (
	"example.com/transactional-outbox/outbox/publish"
)

// ownResults publishes on two publishers at the same time: one gets only Invalid, the other only
// Confirmed.
func (c contract) ownResults() {
	session := c.Connect(c.T)
	good, bad := c.publisherOf(session), c.publisherOf(session)
	var invalid []publish.Message
	for _, m := range c.Invalid {
		invalid = append(invalid, c.fill(m))
	}
	const rounds = 20
	var answers []sending
	for range rounds {
		answers = append(answers, c.begin(c.Context(), bad, invalid...))
		c.confirm(good, c.batch(20)...)
	}
	for _, a := range answers {
		c.expectAll(a.all(), publish.Invalid)
	}
}

func (c contract) closeTwice() {
	session := c.Connect(c.T)
	p := c.publisherOf(session)
	c.confirm(p, c.batch(1)...)
	p.Close()
	p.Close()
	c.confirm(c.publisherOf(session), c.batch(1)...)
}

// closeSilent closes a publisher that waits for answers.
func (c contract) closeSilent() {
	p := c.publisher()
	c.confirm(p, c.batch(1)...)
	defer c.Silence(c.T)()
	last, closed := c.begin(c.Context(), p, c.batch(3)...), make(chan struct{})
	go func() {
		defer close(closed)
		p.Close()
		p.Close()
	}()
	receive(c, closed, "the end of Close")
	for i, r := range last.all() {
		if r.Outcome != publish.Unknown && r.Outcome != publish.NotSent {
			c.Errorf("message %d is %s (%v)", i, names[r.Outcome], r.Err)
		}
	}
}
