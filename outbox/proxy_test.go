package outbox

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy is between a pool and the database. It can freeze the connections that are open.
type proxy struct {
	url    string // of the database, through the proxy
	stop   func() // closes all connections
	mu     sync.Mutex
	frozen chan struct{} // closed to freeze; new connections get a new one
}

func newProxy(t *testing.T, database string) *proxy {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{frozen: make(chan struct{})}
	target := u.Host
	u.Host = server.Addr().String()
	p.url = u.String()
	var all sync.WaitGroup
	stopped := make(chan struct{})
	all.Go(func() {
		for {
			client, err := server.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(&all, client, target, stopped) })
		}
	})
	p.stop = sync.OnceFunc(func() {
		_ = server.Close()
		close(stopped)
		all.Wait()
	})
	t.Cleanup(p.stop)
	return p
}

// serve copies in both directions until one side closes, or the test ends.
func (p *proxy) serve(all *sync.WaitGroup, client net.Conn, target string, stopped <-chan struct{}) {
	database, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	ended := make(chan struct{}, 2)
	all.Go(func() { copyUntil(frozen, stopped, client, database); ended <- struct{}{} })
	all.Go(func() { copyUntil(frozen, stopped, database, client); ended <- struct{}{} })
	select {
	case <-ended:
	case <-stopped:
	}
	_, _ = client.Close(), database.Close()
}

// copyUntil copies until a side closes. When the connection is frozen, it reads and delivers
// nothing.
func copyUntil(frozen, stopped <-chan struct{}, to io.Writer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-frozen:
			<-stopped
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// freeze freezes the connections that are open now.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.frozen)
	p.frozen = make(chan struct{})
}
