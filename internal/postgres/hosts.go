package postgres

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// hosts remembers to which host of a URL this process has connected last, and tries this host
// first. The driver alone tries the hosts in the order of the URL, for each new connection. As long
// as the first host does not answer, each new connection would take connectTimeout longer. And if
// the old primary came back after its standby had taken over, it would get new connections.
type hosts struct {
	mu        sync.Mutex
	last      string              // address of the newest connection
	addresses map[string][]string // of each host, from the last lookup
}

// lastHosts are shared by the pools of a process: one that was idle during a failover has not met
// the new primary itself.
var lastHosts sync.Map // URL → *hosts

// preferLast makes new connections of a pool try the last host first.
func preferLast(config *pgxpool.Config, url string) {
	shared, _ := lastHosts.LoadOrStore(url, &hosts{addresses: map[string][]string{}})
	h := shared.(*hosts)
	h.watchLookups(config.ConnConfig)
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		h.sort(c)
		return nil
	}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		h.remember(conn)
		return nil
	}
}

func (h *hosts) remember(conn *pgx.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = conn.PgConn().Conn().RemoteAddr().String()
}

// watchLookups also moves the last address of a host to the front of its addresses.
func (h *hosts) watchLookups(c *pgx.ConnConfig) {
	lookup := c.LookupFunc
	c.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		found, err := lookup(ctx, host)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.addresses[host] = found
		last, _, _ := net.SplitHostPort(h.last)
		return lastFirst(found, func(address string) bool { return address == last }), err
	}
}

// sort moves the last host to the front, and keeps the order of the others. If the URL has no
// sslmode, a host is in the list twice, with TLS and without.
func (h *hosts) sort(c *pgx.ConnConfig) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}
	all := slices.Concat([]*pgconn.FallbackConfig{first}, c.Fallbacks)
	sorted := lastFirst(all, h.isLast)
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = sorted[0].Host, sorted[0].Port, sorted[0].TLSConfig, sorted[1:]
}

func (h *hosts) isLast(f *pgconn.FallbackConfig) bool {
	return slices.ContainsFunc(h.addresses[f.Host], func(address string) bool {
		return net.JoinHostPort(address, strconv.Itoa(int(f.Port))) == h.last
	})
}

// lastFirst moves what isLast to the front, and keeps the order otherwise.
func lastFirst[T any](all []T, isLast func(T) bool) []T {
	var first, others []T
	for _, one := range all {
		if isLast(one) {
			first = append(first, one)
		} else {
			others = append(others, one)
		}
	}
	return append(first, others...)
}

// requireWrites makes the driver use only hosts that take writes, if there are several. Without
// target_session_attrs it would take a standby while the primary restarts, and that one would be
// the host that worked last, for ever.
func requireWrites(c *pgx.ConnConfig) {
	isOther := func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port }
	if c.ValidateConnect == nil && slices.ContainsFunc(c.Fallbacks, isOther) {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

// leaveReadOnly closes a connection whose server refuses a write because it is read-only, and calls
// leave. It does so only if the URL has target_session_attrs or several hosts, because then the
// driver looks for a server that takes writes. Behind a pooler, a server can become a standby
// without an end of the connection.
func leaveReadOnly(c *pgx.ConnConfig, leave func()) {
	if c.ValidateConnect == nil {
		return
	}
	keeps := c.OnPgError
	c.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == readOnly || err.Code == notSupported && !stalePlan(err) {
			leave()
			return false
		}
		return keeps(conn, err)
	}
}

// readOnly is the SQLSTATE of a write that is refused in a read-only transaction.
const readOnly = "25006"

// notSupported is the SQLSTATE with which a standby refuses BEGIN READ WRITE, as the library's
// transactions begin. Other statements that have it lose their connection, and nothing else.
const notSupported = "0A000"
