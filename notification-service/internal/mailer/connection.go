package mailer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// connection is a connection to the mail server, after the greeting, TLS and the login.
type connection struct {
	client       *smtp.Client
	conn         net.Conn // its TCP connection
	limits       *limits
	opened       time.Time
	emails       int
	stepDeadline time.Time // of the step that is running
	reset        *uint     // the RSET whose answer has not been read
	closed       bool
	expiry       *time.Timer // while it is idle
}

// open connects, reads the greeting, starts TLS and logs in. An error there is never the
// e-mail's fault.
func (s *SMTP) open(ctx context.Context, until time.Time) (*connection, error) {
	dialer := net.Dialer{Timeout: s.limits.dial, Deadline: until}
	conn, err := dialer.DialContext(ctx, "tcp", s.address())
	if err != nil {
		return nil, &UnavailableError{Cause: explainTimeout(ctx, until, err)}
	}
	c := &connection{conn: conn, limits: &s.limits, opened: time.Now()}
	defer c.interruptWhenDone(ctx)()
	c.setDeadline(ctx, s.limits.greeting, until)
	if c.client, err = s.login(ctx, conn); err != nil {
		c.close()
		return nil, &UnavailableError{Cause: explainTimeout(ctx, c.stepDeadline, err)}
	}
	return c, nil
}

func (s *SMTP) login(ctx context.Context, conn net.Conn) (*smtp.Client, error) {
	// go-mail gives its dialler a context that ends when the dialling does. The login needs ctx.
	dial := func(context.Context, string, string) (net.Conn, error) {
		return s.encrypt(ctx, &limitedConn{Conn: conn})
	}
	client, err := mail.NewClient(s.host, append([]mail.Option{mail.WithDialContextFunc(dial)}, s.options...)...)
	if err != nil {
		return nil, err
	}
	return client.DialToSMTPClientWithContext(ctx)
}

func (s *SMTP) encrypt(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if !s.tlsFirst {
		return conn, nil
	}
	encrypted := tls.Client(conn, s.tls)
	return encrypted, encrypted.HandshakeContext(ctx)
}

// interruptWhenDone ends any step when ctx ends, until stop is called. stop returns whether the
// connection can still be used.
func (c *connection) interruptWhenDone(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
}

// setDeadline gives the next step a deadline. It is never after until, if that is set.
func (c *connection) setDeadline(ctx context.Context, timeout time.Duration, until time.Time) {
	c.stepDeadline = time.Now().Add(timeout)
	if !until.IsZero() && until.Before(c.stepDeadline) {
		c.stepDeadline = until
	}
	_ = c.conn.SetDeadline(c.stepDeadline)
	if ctx.Err() != nil { // interruptWhenDone may have acted before this deadline
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	}
}

// quit sends QUIT, waits for the answer, and closes the connection.
func (c *connection) quit() {
	defer c.close()
	_ = c.conn.SetDeadline(time.Now().Add(c.limits.quit))
	if c.readReset() == nil {
		_ = c.client.Quit()
	}
}

// quitAtOnce sends QUIT and closes the connection without waiting for the answer.
func (c *connection) quitAtOnce() {
	_ = c.conn.SetDeadline(time.Now().Add(c.limits.quit))
	_, _ = c.client.Text.Cmd("QUIT")
	c.close()
}

// close does not send QUIT. go-mail's would end the DATA of an e-mail that was sent halfway, and
// the server would accept that part.
func (c *connection) close() {
	c.closed = true
	_ = c.conn.Close()
}

// limitedConn is the connection that go-mail gets.
type limitedConn struct {
	net.Conn
	readSinceWrite int // bytes read since the last write
}

// SetDeadline does nothing. go-mail would set a new deadline with every step, and a slow server
// could go on for ever.
func (*limitedConn) SetDeadline(time.Time) error { return nil }

// maxReply is far longer than any reply, also while TLS begins.
const maxReply = 1 << 18

var errEndlessReply = errors.New("the mail server's reply has no end")

// Read bounds the memory that a reply takes: net/textproto does not.
func (g *limitedConn) Read(p []byte) (int, error) {
	if g.readSinceWrite > maxReply {
		return 0, errEndlessReply
	}
	n, err := g.Conn.Read(p)
	g.readSinceWrite += n
	return n, err
}

// Write begins a new step.
func (g *limitedConn) Write(p []byte) (int, error) {
	g.readSinceWrite = 0
	return g.Conn.Write(p)
}

// explainTimeout adds the timeout to err if it may be the reason. net/textproto does not report
// it if half an answer has come.
func explainTimeout(ctx context.Context, until time.Time, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case time.Now().After(until):
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	default:
		return err
	}
}
