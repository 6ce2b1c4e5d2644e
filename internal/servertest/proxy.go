package servertest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a program and its server, and does to their connections what
// networks do.
type Proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu       sync.Mutex
	links    map[*link]struct{}
	flowing  chan struct{} // closed while bytes may pass
	refusing bool
	accepted int
	delay    time.Duration
	deaf     func(request []byte) bool // to whose reply; nil: to none
	unheard  int
}

// NewProxy listens on a port of its own and forwards to target ("host:port"), until
// the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := OpenProxy(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// OpenProxy is NewProxy for programs, which Close it.
func OpenProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", localhost+":0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]struct{}{}, flowing: make(chan struct{})}
	close(p.flowing)
	p.running.Go(p.accept)
	return p, nil
}

// Close ends all connections and frees the port.
func (p *Proxy) Close() {
	p.Refuse(true) // also what is accepted from now on
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// Addr is where programs connect to instead of the target.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted counts the connections that programs have opened, refused ones too.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open counts the connections that are open now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Cut closes all connections, as a server does that ends.
func (p *Proxy) Cut() { p.each((*link).close) }

// Reset breaks all connections with an RST: the peers lose what they have not read yet.
func (p *Proxy) Reset() { p.each((*link).reset) }

// Refuse decides whether new connections are closed at once.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Stall keeps all connections, old and new, and forwards nothing: what a program sees
// when a network drops its packets.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.flowing) {
		p.flowing = make(chan struct{})
	}
}

// Resume ends Stall. Nothing was lost meanwhile.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isClosed(p.flowing) {
		close(p.flowing)
	}
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

// add takes the link in, unless the proxy has begun to refuse while it dialled.
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

func (p *Proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flowing
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
