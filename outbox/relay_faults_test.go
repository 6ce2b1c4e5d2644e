package outbox

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// network opens connections to the database, and can freeze those that are open: nothing passes in
// either direction, and they are not closed.
type network struct {
	mu     sync.Mutex
	frozen chan struct{} // closed to freeze; new connections get a new one
}

type frozenConn struct {
	net.Conn
	frozen <-chan struct{}
}

func (c frozenConn) isFrozen() bool {
	select {
	case <-c.frozen:
		return true
	default:
		return false
	}
}

func (c frozenConn) Read(p []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(p); err != nil || !c.isFrozen() {
			return n, err
		}
	}
}

func (c frozenConn) Write(p []byte) (int, error) {
	if c.isFrozen() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close leaves a frozen connection to the end of the test: the server hears nothing of it.
func (c frozenConn) Close() error {
	if c.isFrozen() {
		return c.SetDeadline(time.Unix(1, 0)) // ends a read
	}
	return c.Conn.Close()
}

func (n *network) dial(t *testing.T) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() }) // before the pool is closed, which would wait 15 s for frozen connections
		n.mu.Lock()
		defer n.mu.Unlock()
		return frozenConn{conn, n.frozen}, nil
	}
}

func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.frozen)
	n.frozen = make(chan struct{})
}

// frozenPool returns a pool whose connections can be frozen. It checks an idle connection before it
// uses it, and does not wait long for the answer.
func frozenPool(t *testing.T, url string) (*pgxpool.Pool, *network) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url + "&pool_max_conns=4&pool_ping_timeout=1s")
	must(t, err)
	n := &network{frozen: make(chan struct{})}
	config.ConnConfig.DialFunc = n.dial(t)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool, n
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
			direct, to := withTables(t, url), newSink()
			pool, connections := frozenPool(t, url)
			// A mark has 5 s, and then pgx closes the frozen connection for up to 15 s. Meanwhile the pool may
			// have no other one. So the lease is longer.
			r, _ := run(t, pool, to, RelayConfig{PollInterval: poll, Window: 500, Lease: time.Minute})
			for n := range 3 {
				appendEvents(t, direct, 50)
				r.Wake()
				awaitPublished(t, direct, 50*(n+1))
				switch {
				case n > 0:
				case strings.HasPrefix(name, "between"):
					to.call(sync.OnceFunc(connections.freeze))
				default:
					connections.freeze()
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
		return errors.Is(err, ErrNoDatabase) && !strings.Contains(err.Error(), "not answered yet")
	})
	stop()
}
