package publishtest

import (
	"cmp"
	"crypto/rand"
	"errors"
	"sync"

	"example.com/transactional-outbox/outbox/publish"
)

func (c contract) returned() {
	p := c.publisher()
	batch := c.batch(6)
	for i := range 3 {
		batch[2*i] = c.unheard()
	}
	for range 2 {
		c.expect(c.publish(p, batch...), []publish.Outcome{
			publish.Returned, publish.Confirmed, publish.Returned, publish.Confirmed, publish.Returned, publish.Confirmed,
		})
	}
	c.stored(batch[1], batch[3], batch[5])
	c.notStored(batch[0], batch[2], batch[4])

	var all []publish.Message
	for range window {
		all = append(all, c.unheard())
	}
	c.expectAll(c.publish(p, all...), publish.Returned)
	c.confirm(p, batch[1])
}

// invalid publishes a valid message before and after each invalid one.
func (c contract) invalid() {
	p := c.publisher()
	for reason, m := range c.Invalid {
		m = c.fill(m)
		before, after := c.message(m.Group), c.message(m.Group)
		results := c.publish(p, before, m, after)
		c.expect(results, []publish.Outcome{publish.Confirmed, publish.Invalid, publish.Confirmed})
		if !errors.Is(results[1].Err, reason) || !errors.Is(results[1].Err, publish.ErrInvalid) {
			c.Errorf("the reason is %q, want %q", results[1].Err, reason)
		}
		c.stored(before, after)
		c.notStored(m)
	}
}

// unheard returns a message that no consumer gets, in its own group.
func (c contract) unheard() publish.Message {
	m := c.fill(c.NoListener)
	m.ID, m.Group = rand.Text(), rand.Text()
	return m
}

// fill sets the fields of a message that are empty.
func (c contract) fill(m publish.Message) publish.Message {
	valid := c.message("group-1")
	m.ID, m.Destination = cmp.Or(m.ID, valid.ID), cmp.Or(m.Destination, valid.Destination)
	m.Topic, m.Group = cmp.Or(m.Topic, valid.Topic), cmp.Or(m.Group, valid.Group)
	m.ContentType, m.AppID = cmp.Or(m.ContentType, valid.ContentType), cmp.Or(m.AppID, valid.AppID)
	m.Timestamp = cmp.Or(m.Timestamp, valid.Timestamp)
	if m.Headers == nil {
		m.Headers = valid.Headers
	}
	if m.Body == nil {
		m.Body = valid.Body
	}
	return m
}

// refused uses one publisher for all: what it must do so that the server takes messages again is
// its own affair.
func (c contract) refused() {
	p, batch := c.publisher(), c.batch(3)
	c.confirm(p, c.batch(3)...)
	undo := sync.OnceFunc(c.Refuse(c.T))
	defer undo()
	for range 2 {
		c.expectAll(c.publish(p, batch...), publish.Refused)
	}
	undo()
	c.confirm(p, batch...)
	c.stored(batch...)
}
