package servertest

import "time"

// Freeze forwards nothing more on the connections that are open, for ever. New ones work:
// what a program sees after a failover, or when a firewall has forgotten its connections.
// Neither side learns that the other has ended.
func (p *Proxy) Freeze() { p.each(func(l *link) { l.frozen.Store(true) }) }

// Slow delays what is forwarded, in each direction and piece by piece, so that little
// gets through as well; 0 ends it.
func (p *Proxy) Slow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// DropReply forwards the requests that match, and breaks their connection when the
// server replies: it did what it was asked, and the program does not learn of it. nil
// ends it.
func (p *Proxy) DropReply(matches func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = matches
}

// Dropped counts the replies that DropReply has kept from a program.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unheard
}

// pause waits as long as a slow network does.
func (p *Proxy) pause(closed <-chan struct{}) {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay == 0 {
		return
	}
	select {
	case <-time.After(delay):
	case <-closed:
	}
}

func (p *Proxy) isDeafTo(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf != nil && p.deaf(request)
}

func (p *Proxy) drop(l *link) {
	p.mu.Lock()
	p.unheard++
	p.mu.Unlock()
	l.reset()
}
