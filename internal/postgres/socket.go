package postgres

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A server that vanishes leaves connections on which no answer comes. These timeouts detect such
// connections, and free their places in the pool for new ones.
const (
	connectTimeout = 5 * time.Second
	dialTimeout    = 3 * time.Second
	// pingTimeout limits the ping of an idle connection before it is used.
	pingTimeout = 2 * time.Second
	// closeConnTimeout is how long a broken connection keeps its place in the pool while it is
	// closed. The driver would wait 15 s for an answer.
	closeConnTimeout = time.Second
	// userTimeout is TCP_USER_TIMEOUT: how long the kernel sends unacknowledged data again. Without
	// it, that is about 15 minutes. It is for statements that have no deadline.
	userTimeout = 15 * time.Second
)

// setConnectionTimeouts limits the time to connect, and the wait on a connection whose server has
// vanished.
func setConnectionTimeouts(c *pgx.ConnConfig) {
	c.ConnectTimeout = connectTimeout
	dialer := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         setUserTimeout,
	}
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, &dialer, network, address)
	}
	c.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		return conn.Conn().SetDeadline(time.Time{})
	}
}

// dial sets a deadline on the socket. AfterConnect removes it. So only the sockets that the driver
// opens to cancel a statement keep it.
func dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return socket{conn}, nil
}

// socket is a connection whose later deadlines are short.
type socket struct{ net.Conn }

// SetDeadline shortens a deadline in the future. The driver sets a deadline only when it closes
// a broken connection.
func (s socket) SetDeadline(t time.Time) error {
	if last := time.Now().Add(closeConnTimeout); t.After(last) {
		t = last
	}
	return s.Conn.SetDeadline(t)
}
