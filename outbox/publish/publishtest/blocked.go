package publishtest

import (
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

func (c contract) blocked() {
	session := c.Connect(c.T)
	if session.Blocked() {
		c.Fatal("Blocked, and the server does not block")
	}
	p, unblock := c.publisherOf(session), sync.OnceFunc(c.Block(c.T))
	defer unblock()
	meanwhile := c.begin(c.Context(), p, c.batch(1)...)
	c.eventually("the session knows that the server blocks", session.Blocked)
	unblock()
	c.eventually("the session knows that the server does not block", func() bool { return !session.Blocked() })
	for _, r := range meanwhile.all() {
		if r.Outcome != publish.Confirmed && r.Outcome != publish.Unknown {
			c.Errorf("the outcome is %s (%v)", names[r.Outcome], r.Err)
		}
	}
	c.confirm(c.publisherOf(session), c.batch(1)...)
}

// eventually polls a condition, for which there is no event to wait for.
func (c contract) eventually(what string, condition func() bool) {
	c.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("not within %s: %s", limit, what)
		}
	}
}
