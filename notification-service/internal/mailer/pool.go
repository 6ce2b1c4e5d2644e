package mailer

import (
	"context"
	"slices"
	"sync"
	"time"
)

// pool keeps open connections to the mail server between e-mails.
type pool struct {
	slots chan struct{} // one taken for each connection in use

	mu       sync.Mutex
	idle     []*connection // the last one was used last
	closed   bool
	quitting sync.WaitGroup // the connections that send QUIT
}

func newPool(connections int) *pool {
	return &pool{slots: make(chan struct{}, max(connections, 1))}
}

// acquire waits until one more connection may be used.
func (p *pool) acquire(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release ends the use that acquire began. It puts c back, which may be nil.
func (p *pool) release(c *connection) {
	if c == nil || c.closed || p.putBack(c) {
		<-p.slots
	}
}

// putBack keeps c for the next e-mail, and reports whether its slot is free. If c is too old or
// has sent enough e-mails, the slot becomes free only after its QUIT. So the server never sees
// too many connections.
func (p *pool) putBack(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		c.quitAtOnce()
	case c.emails >= c.limits.emails || time.Since(c.opened) >= c.limits.age:
		p.quitting.Go(func() { c.quit(); <-p.slots })
		return false
	default:
		left := min(c.limits.idle, c.limits.age-time.Since(c.opened))
		c.expiry = time.AfterFunc(left, func() { p.expire(c) })
		p.idle = append(p.idle, c)
	}
	return true
}

// takeIdle returns the idle connection that was used last, or nil. When fewer connections are
// needed, the others stay idle until they expire.
func (p *pool) takeIdle() *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle = p.idle[:last]
	c.expiry.Stop()
	return c
}

// expire closes c if it is still idle.
func (p *pool) expire(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, c); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		p.quitting.Go(c.quit)
	}
}

// close closes the idle connections. From now on no connection is kept. All connections send
// their QUIT at the same time.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, c := range p.idle {
		c.expiry.Stop()
		p.quitting.Go(c.quit)
	}
	p.idle = nil
	p.mu.Unlock()
	p.quitting.Wait()
}
