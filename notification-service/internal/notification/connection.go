package notification

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

// connection is one to the mail server: greeted, encrypted, and logged in.
type connection struct {
	client *smtp.Client
	conn   net.Conn // its TCP connection
	limits *limits
	opened time.Time
	emails int
	until  time.Time // the deadline of the step
	reset  *uint     // the RSET whose answer has not been read
	closed bool
	expiry *time.Timer // while it is idle
}

// open connects, reads the greeting, encrypts, and logs in. What goes wrong there is no
// e-mail's fault.
func (s *SMTP) open(ctx context.Context, until time.Time) (*connection, error) {
	dialer := net.Dialer{Timeout: s.limits.dial, Deadline: until}
	conn, err := dialer.DialContext(ctx, "tcp", s.address())
	if err != nil {
		return nil, &UnavailableError{Cause: explained(ctx, until, err)}
	}
	c := &connection{conn: conn, limits: &s.limits, opened: time.Now()}
	defer c.bind(ctx)()
	c.allow(ctx, s.limits.greeting, until)
	if c.client, err = s.login(ctx, conn); err != nil {
		c.close()
		return nil, &UnavailableError{Cause: explained(ctx, c.until, err)}
	}
	return c, nil
}

func (s *SMTP) login(ctx context.Context, conn net.Conn) (*smtp.Client, error) {
	// go-mail gives its dialler a context that ends with the dialling: ctx is the one
	// that counts.
	dial := func(context.Context, string, string) (net.Conn, error) { return s.encrypt(ctx, &guarded{Conn: conn}) }
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

// bind makes the end of ctx end any step, until unbind is called. It returns whether the
// connection can still be used.
func (c *connection) bind(ctx context.Context) (unbind func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
}

// allow gives the next step a deadline, which is until at the latest if that is set.
func (c *connection) allow(ctx context.Context, timeout time.Duration, until time.Time) {
	c.until = time.Now().Add(timeout)
	if !until.IsZero() && until.Before(c.until) {
		c.until = until
	}
	_ = c.conn.SetDeadline(c.until)
	if ctx.Err() != nil { // bind may have acted before this deadline
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	}
}

// quit says goodbye, and closes the connection.
func (c *connection) quit() {
	defer c.close()
	_ = c.conn.SetDeadline(time.Now().Add(c.limits.quit))
	if c.readReset() == nil {
		_ = c.client.Quit()
	}
}

// quitAtOnce does not wait for the answer.
func (c *connection) quitAtOnce() {
	_ = c.conn.SetDeadline(time.Now().Add(c.limits.quit))
	_, _ = c.client.Text.Cmd("QUIT")
	c.close()
}

// close does not say QUIT: go-mail's would end an e-mail that was sent halfway, and the
// server would take it for the whole.
func (c *connection) close() {
	c.closed = true
	_ = c.conn.Close()
}

// guarded is a connection as go-mail gets it.
type guarded struct {
	net.Conn
	unanswered int // bytes read since the last write
}

// SetDeadline leaves it where it is: go-mail would set one with every step, and a slow
// server could go on for ever.
func (*guarded) SetDeadline(time.Time) error { return nil }

// maxReply is far more than a server has to say, also while TLS begins.
const maxReply = 1 << 18

var errEndlessReply = errors.New("the mail server's reply has no end")

// Read bounds the memory that a reply takes: net/textproto does not.
func (g *guarded) Read(p []byte) (int, error) {
	if g.unanswered > maxReply {
		return 0, errEndlessReply
	}
	n, err := g.Conn.Read(p)
	g.unanswered += n
	return n, err
}

// Write begins a new step.
func (g *guarded) Write(p []byte) (int, error) {
	g.unanswered = 0
	return g.Conn.Write(p)
}

// explained adds that time was up, when that may be why err happened: net/textproto
// does not say so if half an answer has come.
func explained(ctx context.Context, until time.Time, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case time.Now().After(until):
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	default:
		return err
	}
}
