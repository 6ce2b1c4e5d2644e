package publishtest

import (
	"context"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

func (c contract) waitsWhileBlocked() {
	session := c.Connect(c.T)
	if c.blocks(session) {
		c.Fatal("the session waits, and the server does not block")
	}
	unblock, results := c.block(session)
	defer unblock()
	waited := c.unblocked(c.Context(), session)
	select {
	case err := <-waited:
		c.Errorf("Unblocked did not wait: %v", err)
	default:
	}
	unblock()
	if err := receive(c, waited, "the end of Unblocked"); err != nil {
		c.Error(err)
	}
	for _, r := range receive(c, results, "the results of what was published while the server blocked") {
		if r.Outcome != publish.Confirmed && r.Outcome != publish.Unknown {
			c.Errorf("the outcome is %s (%v)", names[r.Outcome], r.Err)
		}
	}
	c.confirm(c.publisherOf(session), c.batch(1)...)
}

func (c contract) unblockedEndsWithContext() {
	session := c.Connect(c.T)
	unblock, _ := c.block(session)
	defer unblock()
	ctx, cancel := context.WithCancel(c.Context())
	waited := c.unblocked(ctx, session)
	cancel()
	if err := receive(c, waited, "the end of Unblocked"); err == nil {
		c.Error("the server blocks, and Unblocked returned no error")
	}
}

func (c contract) unblockedEndsWithSession() {
	session := c.Connect(c.T)
	unblock, _ := c.block(session)
	defer unblock()
	waited := c.unblocked(context.WithoutCancel(c.Context()), session)
	c.Cut(c.T)
	if err := receive(c, waited, "the end of Unblocked"); err == nil {
		c.Error("the session has ended, and Unblocked returned no error")
	}
}

// block makes the server block, and publishes a message. It returns when the session knows that
// the server blocks.
func (c contract) block(s publish.Session) (unblock func(), results <-chan []publish.Result) {
	c.Helper()
	p, ended := c.publisherOf(s), make(chan []publish.Result, 1)
	unblock = sync.OnceFunc(c.Block(c.T))
	go func() { ended <- p.Publish(c.batch(1), limit) }()
	for deadline := time.Now().Add(limit); !c.blocks(s); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			unblock()
			c.Fatalf("after %s the session does not know that the server blocks", limit)
		}
	}
	return unblock, ended
}

// blocks reports whether the session waits for the server.
func (c contract) blocks(s publish.Session) bool {
	briefly, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
	defer cancel()
	return s.Unblocked(briefly) != nil
}

func (c contract) unblocked(ctx context.Context, s publish.Session) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- s.Unblocked(ctx) }()
	return ended
}
