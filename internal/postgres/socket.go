package postgres

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A server that vanishes without a word leaves connections on which no answer comes. These
// bounds find them, and free their places in the pool for new connections.
const (
	connectTimeout = 5 * time.Second
	dialTimeout    = 3 * time.Second
	// pingTimeout is for the ping of a connection that was idle, before it is used.
	pingTimeout = 2 * time.Second
	// giveUpTimeout is how long a connection that is given up keeps its place in the pool.
	// The driver would wait 15 s for an answer to its goodbye.
	giveUpTimeout = time.Second
	// unansweredTimeout is how long the kernel sends again what nobody acknowledges. Its
	// own limit is about 15 minutes. It is for statements that have no deadline.
	unansweredTimeout = 15 * time.Second
)

// boundConnections gives every wait for the server a limit.
func boundConnections(c *pgxpool.Config) {
	c.PingTimeout = pingTimeout
	c.ConnConfig.ConnectTimeout = connectTimeout
	dialer := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         boundUnanswered,
	}
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, &dialer, network, address)
	}
	c.ConnConfig.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		return conn.Conn().SetDeadline(time.Time{})
	}
}

// dial gives the socket a deadline. AfterConnect takes it away, so it stays only on the
// sockets that the driver opens to cancel a statement.
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

// socket is a connection that is given up soon.
type socket struct{ net.Conn }

// SetDeadline shortens a deadline in the future: the driver sets one only when it gives
// the connection up.
func (s socket) SetDeadline(t time.Time) error {
	if last := time.Now().Add(giveUpTimeout); t.After(last) {
		t = last
	}
	return s.Conn.SetDeadline(t)
}
