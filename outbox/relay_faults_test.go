package outbox

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/internal/dbtest"
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
	must(t, err)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
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

// TestP4ARelayOutlivesTerminatedConnections terminates all connections again and again. If that is
// between the commit of a claim and its answer, its events wait until the lease ends.
func TestP4ARelayOutlivesTerminatedConnections(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	pool, admin, to := withTables(t, url), dbtest.Pool(t, url), newSink()
	r, stop := run(t, pool, to, RelayConfig{
		Window: 20, PollInterval: 50 * time.Millisecond, ConfirmTimeout: time.Second, Lease: 5 * time.Second,
	})
	for n := range 5 {
		appendEvents(t, admin, 100)
		r.Wake()
		await(t, "one more message", func() bool { messages, _ := to.counts(); return messages > 100*n })
		_, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		must(t, err)
		awaitPublished(t, admin, 100*(n+1))
	}
	await(t, "listening again", func() bool { return r.Stats().Listening })
	stop()
}

// TestP4ARelayOutlivesFrozenConnections freezes the connections to the database, while new ones
// work. This happens after a failover, for example.
func TestP4ARelayOutlivesFrozenConnections(t *testing.T) {
	t.Parallel()
	for name, poll := range map[string]time.Duration{
		"idle": 2 * time.Second, "in use": 10 * time.Millisecond, "between confirms and mark": 10 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := dbtest.URL(t)
			direct, p, to := withTables(t, url), newProxy(t, url), newSink()
			// The pool checks an idle connection before it uses it, and does not wait long for the answer.
			pool := dbtest.Pool(t, p.url+"&pool_max_conns=4&pool_ping_timeout=1s")
			t.Cleanup(p.stop) // before the pool is closed, which would wait 15 s for frozen connections
			r, _ := run(t, pool, to, RelayConfig{PollInterval: poll, Window: 500})
			for n := range 3 {
				appendEvents(t, direct, 50)
				r.Wake()
				awaitPublished(t, direct, 50*(n+1))
				switch {
				case n > 0:
				case strings.HasPrefix(name, "between"):
					to.call(sync.OnceFunc(p.freeze))
				default:
					p.freeze()
				}
			}
			if _, repeats := to.counts(); repeats > 0 {
				t.Errorf("%d messages were published again", repeats)
			}
		})
	}
}

// TestARelayWaitsForItsDatabase has a database at a port where nobody listens.
func TestARelayWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, "postgres://postgres@127.0.0.1:1/nowhere?sslmode=disable")
	r, stop := run(t, pool, newSink(), RelayConfig{})
	await(t, "it says why it waits", func() bool {
		err := r.Health()
		return err != nil && errors.Unwrap(err) != nil && !errors.Is(err, errAwaited)
	})
	stop()
}
