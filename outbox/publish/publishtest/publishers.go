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
	ended := make(chan [][]publish.Result, 1)
	go func() {
		var all [][]publish.Result
		for range rounds {
			all = append(all, bad.Publish(invalid, limit))
		}
		ended <- all
	}()
	for range rounds {
		c.confirm(good, c.batch(20)...)
	}
	for _, results := range receive(c, ended, "the results of the other publisher") {
		c.expectAll(results, publish.Invalid)
	}
}

// siblingOfUnknown: the connection is still open, so the other publishers of the session go on.
func (c contract) siblingOfUnknown() {
	session := c.Connect(c.T)
	p, sibling := c.publisherOf(session), c.publisherOf(session)
	batch := c.batch(3)
	c.confirm(sibling, batch...)
	resume := c.unknown(p)
	defer resume()
	resume()
	c.confirm(sibling, batch...)
	c.expectReason(c.publish(p, batch...), publish.ErrNotSent)
	p.Close()
	c.confirm(sibling, batch...)
	c.confirm(c.publisherOf(session), batch...)
	c.stored(batch...)
}

func (c contract) closeTwice() {
	session := c.Connect(c.T)
	p := c.publisherOf(session)
	c.confirm(p, c.batch(1)...)
	p.Close()
	p.Close()
	c.confirm(c.publisherOf(session), c.batch(1)...)
}

func (c contract) closeSilent() {
	p := c.publisher()
	resume := c.unknown(p)
	defer resume()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.Close()
		p.Close()
	}()
	receive(c, closed, "the end of Close")
}
