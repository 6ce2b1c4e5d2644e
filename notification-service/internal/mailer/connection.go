package mailer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"example.com/transactional-outbox/outbox/publish"
)

// limits has the timeouts. The one of the greeting, with the login, and those of an e-mail are the
// longest of RFC 5321, section 4.5.3.2: beforeDot is for all steps before the dot together, and a
// shorter one for the dot makes duplicates. check is for MAIL over a kept connection, whose server
// may be gone.
type limits struct {
	dial, greeting, beforeDot, dot             time.Duration
	check, quit, idle, age, busy, fewer, retry time.Duration
	emails                                     int
}

var standardLimits = limits{
	dial: 30 * time.Second, greeting: 5 * time.Minute, beforeDot: 5 * time.Minute, dot: 10 * time.Minute,
	check: 30 * time.Second, quit: time.Second, // also for RSET: no e-mail depends on these
	idle: 30 * time.Second, age: 5 * time.Minute, emails: 100, // of a connection; some servers allow no more
	busy: time.Second, fewer: 10 * time.Second, retry: 500 * time.Millisecond,
}

// connection is a connection to the server, after the greeting, TLS and the login.
type connection struct {
	*smtp.Client
	conn   net.Conn // its TCP connection
	limits *limits
	opened time.Time
	emails int
	closed bool
	kept   bool        // it was idle, and the server may have given it up
	domain string      // while it is in use
	since  time.Time   // when it was taken
	expiry *time.Timer // while it is idle
}

// dial connects, reads the greeting, starts TLS and logs in.
func (d *Destination) dial(ctx context.Context) (*connection, error) {
	as, err := d.freshLogin()
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: d.limits.dial}).DialContext(ctx, "tcp", d.address)
	if err != nil {
		return nil, err
	}
	c := &connection{conn: conn, limits: &d.limits, opened: time.Now()}
	c.within(d.limits.greeting)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	encrypt := func(context.Context, string, string) (net.Conn, error) {
		limited := limitedConn{conn, io.LimitReader(conn, maxReplies)}
		if !d.tlsFirst {
			return limited, nil
		}
		return tls.Client(limited, d.tls), nil
	}
	options := append(slices.Clip(d.options), mail.WithDialContextFunc(encrypt), mail.WithHELO(d.helo(conn)))
	if as != nil {
		options = append(options, mail.WithSMTPAuthCustom(&login{host: d.host, as: as}))
	}
	client, err := mail.NewClient(d.host, options...)
	if err == nil {
		c.Client, err = client.DialToSMTPClientWithContext(ctx)
	}
	if err != nil {
		c.close()
		return nil, readable(err)
	}
	return c, nil
}

// The steps that decide about the outcome.
const (
	stepMail, stepRcpt = "MAIL", "RCPT"
	stepDot            = "the dot" // from here on the server may have the e-mail
)

// errTooLate says that the lease of the e-mail has ended before the dot.
var errTooLate = errors.New("another relay may have the e-mail now")

// transaction sends e (RFC 5321, section 3.3), unless ctx has ended before the dot. It returns the
// last step, and its error.
func (c *connection) transaction(ctx context.Context, e envelope) (last string, err error) {
	until := time.Now().Add(c.limits.beforeDot)
	_ = c.conn.SetDeadline(until)
	if c.kept {
		if c.Text.R.Buffered() > 0 {
			return stepMail, errors.New("there is a reply too many")
		}
		c.within(c.limits.check)
	}
	if err := c.begin(e); err != nil {
		return stepMail, err
	}
	_ = c.conn.SetDeadline(until)
	if err := c.Rcpt("<" + e.to + ">"); err != nil {
		return stepRcpt, err
	}
	text, err := c.Data()
	if err != nil {
		return "DATA", err
	}
	if _, err := text.Write(e.text); err != nil {
		return "the text", err
	}
	if ctx.Err() != nil {
		return "the text", errTooLate
	}
	c.within(c.limits.dot)
	return stepDot, text.Close()
}

// begin sends MAIL. It asks for SMTPUTF8 only where it is needed, because not every server supports
// it (RFC 6531, section 3.4).
func (c *connection) begin(e envelope) error {
	c.SkipSMTPUTF8(!e.utf8)
	if ok, _ := c.Extension("SMTPUTF8"); e.utf8 && !ok {
		return fmt.Errorf("%w: the server does not support the letters of this address", publish.ErrInvalid)
	}
	return c.Mail("<" + e.from + ">")
}

// within sets the time until which the next steps must end.
func (c *connection) within(limit time.Duration) { _ = c.conn.SetDeadline(time.Now().Add(limit)) }

// quit sends QUIT, waits a little for the answer, and closes the connection.
func (c *connection) quit() {
	defer c.close()
	if c.within(c.limits.quit); !c.closed {
		_ = c.Quit()
	}
}

// close sends no QUIT. go-mail's would first end a text that was sent halfway with a dot, and the
// server would accept that part.
func (c *connection) close() {
	c.closed = true
	_ = c.conn.Close()
}

// limitedConn is the connection that go-mail gets.
type limitedConn struct {
	net.Conn
	replies io.Reader // it bounds the memory that a reply takes: net/textproto does not
}

const maxReplies = 1 << 20 // far more than the replies to 100 e-mails

// Read reads replies.
func (l limitedConn) Read(p []byte) (int, error) { return l.replies.Read(p) }

// SetDeadline does nothing: go-mail's would replace the deadline of dial.
func (limitedConn) SetDeadline(time.Time) error { return nil }
