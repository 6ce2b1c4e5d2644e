package servers

import "time"

// Freeze never forwards anything again on the connections that are open now. New connections
// work. A program sees this after a failover, or when a firewall has dropped its state.
// Neither side notices that the other has closed its connection.
func (p *Proxy) Freeze() { p.each(func(l *link) { l.frozen.Store(true) }) }

// HoldReplies forwards what programs send, and holds what servers send back until Resume.
func (p *Proxy) HoldReplies() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.replying) {
		p.replying = make(chan struct{})
	}
}

// Slow delays each forwarded piece, in both directions. This also limits the throughput. 0 ends
// it.
func (p *Proxy) Slow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// DropReply forwards the requests that match, and resets the connection when the server
// replies. So the server has executed the request, but the program does not know it. nil
// ends it.
func (p *Proxy) DropReply(matches func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropsFor = matches
}

// Dropped counts the replies that DropReply has dropped.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// pause waits for the delay of Slow.
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

func (p *Proxy) dropsReplyTo(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropsFor != nil && p.dropsFor(request)
}

func (p *Proxy) drop(l *link) {
	p.mu.Lock()
	p.dropped++
	p.mu.Unlock()
	l.reset()
}
