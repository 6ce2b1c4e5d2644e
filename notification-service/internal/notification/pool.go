package notification

import (
	"context"
	"slices"
	"sync"
	"time"
)

// pool keeps connections to the mail server from one e-mail to the next.
type pool struct {
	slots chan struct{} // one taken for each connection in use

	mu      sync.Mutex
	idle    []*connection // the one used last is the last
	closed  bool
	leaving sync.WaitGroup // for connections that say QUIT
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

// release ends what acquire began. It keeps c, which may be nil.
func (p *pool) release(c *connection) {
	if c == nil || c.closed || p.keep(c) {
		<-p.slots
	}
}

// keep puts c back for the next e-mail, and reports whether its slot is free. If c is too old or
// has sent enough e-mails, the slot becomes free only after its QUIT, so that the server never
// sees one connection too many.
func (p *pool) keep(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		c.quitAtOnce()
	case c.emails >= c.limits.emails || time.Since(c.opened) >= c.limits.age:
		p.leaving.Go(func() { c.quit(); <-p.slots })
		return false
	default:
		left := min(c.limits.idle, c.limits.age-time.Since(c.opened))
		c.expiry = time.AfterFunc(left, func() { p.expire(c) })
		p.idle = append(p.idle, c)
	}
	return true
}

// kept returns the connection that was used last, or nil. The others become idle long
// enough to be closed when fewer are needed.
func (p *pool) kept() *connection {
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
		p.leaving.Go(c.quit)
	}
}

// close ends what is idle, and keeps nothing from now on. Each connection has the same
// second for its QUIT.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, c := range p.idle {
		c.expiry.Stop()
		p.leaving.Go(c.quit)
	}
	p.idle = nil
	p.mu.Unlock()
	p.leaving.Wait()
}
