package servers

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards connections between a program and its server, and simulates the faults of a
// network.
type Proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu       sync.Mutex
	links    map[*link]struct{}
	flowing  chan struct{} // closed unless the proxy is stalled
	replying chan struct{} // closed unless the replies are held
	refusing bool
	accepted int
	delay    time.Duration
	dropsFor func(request []byte) bool // the requests whose replies are dropped; may be nil
	dropped  int
}

// NewProxy listens on a free port and forwards to target ("host:port") until the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := OpenProxy(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// OpenProxy is NewProxy for programs. They must call Close.
func OpenProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", localhost+":0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]struct{}{}, flowing: make(chan struct{}), replying: make(chan struct{})}
	close(p.flowing)
	close(p.replying)
	p.running.Go(p.accept)
	return p, nil
}

// Close closes all connections and the listener.
func (p *Proxy) Close() {
	p.Refuse(true) // also connections that are accepted from now on
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// Addr returns the address to which programs connect instead of the target.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted counts the connections that programs have opened, including refused ones.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open counts the open connections.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Cut closes all connections, like a server that ends.
func (p *Proxy) Cut() { p.each((*link).close) }

// Reset closes all connections with an RST: the peers lose unread data.
func (p *Proxy) Reset() { p.each((*link).reset) }

// Refuse sets whether new connections are closed at once.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Stall keeps all connections, old and new, but forwards nothing, like a network that drops
// packets.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.flowing) {
		p.flowing = make(chan struct{})
	}
}

// Resume ends Stall and HoldReplies. No data is lost.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, gate := range []chan struct{}{p.flowing, p.replying} {
		if !isClosed(gate) {
			close(gate)
		}
	}
}

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

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.admit() {
			_ = client.Close()
			continue
		}
		p.running.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	return !p.refusing
}

func (p *Proxy) serve(client *net.TCPConn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server.(*net.TCPConn), closed: make(chan struct{})}
	if !p.add(l) {
		l.close()
		return
	}
	l.forward(p)
	p.remove(l)
}

// add registers the link, unless Refuse was called while the proxy connected to the server.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refusing {
		p.links[l] = struct{}{}
	}
	return !p.refusing
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) each(do func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		do(l)
	}
}

// await waits until the proxy forwards in this direction. It returns false if the link is closed.
func (p *Proxy) await(l *link, to *net.TCPConn) bool {
	p.mu.Lock()
	gates := []<-chan struct{}{p.flowing}
	if to == l.client {
		gates = append(gates, p.replying)
	}
	p.mu.Unlock()
	for _, gate := range gates {
		select {
		case <-gate:
		case <-l.closed:
			return false
		}
	}
	return true
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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

// link is one forwarded connection.
type link struct {
	client, server *net.TCPConn
	closed         chan struct{}
	once           sync.Once
	dropsReply     atomic.Bool // the next reply is dropped
	frozen         atomic.Bool // nothing is forwarded
}

// forward copies in both directions until either side closes its connection.
func (l *link) forward(p *Proxy) {
	var directions sync.WaitGroup
	directions.Go(func() { l.copy(l.server, l.client, p) })
	directions.Go(func() { l.copy(l.client, l.server, p) })
	directions.Wait()
}

func (l *link) copy(to, from *net.TCPConn, p *Proxy) {
	defer l.close() // databases and brokers do not use half-closed connections
	buffer := make([]byte, 32*1024)
	for {
		n, readErr := from.Read(buffer)
		p.pause(l.closed)
		if !p.await(l, to) {
			return
		}
		switch {
		case l.frozen.Load():
			if readErr != nil {
				<-l.closed // the other side does not notice the end either
				return
			}
			continue // the data is lost
		case to == l.server && p.dropsReplyTo(buffer[:n]):
			l.dropsReply.Store(true)
		case to == l.client && l.dropsReply.Load():
			p.drop(l)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil || readErr != nil {
			return
		}
	}
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// reset closes both connections with an RST, and discards data in flight.
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.server.SetLinger(0)
	l.close()
}
