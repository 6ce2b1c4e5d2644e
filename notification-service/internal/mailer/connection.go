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

// limits has the least timeouts of RFC 5321, section 4.5.3.2. A shorter one for the dot makes
// duplicates. The others are not in the RFC. beforeDot is for all steps before the dot together.
type limits struct {
	dial, greeting, mail, rcpt, data, block, dot, beforeDot time.Duration
	reset, quit, idle, age, busy, fewer, retry              time.Duration
	emails                                                  int
}

var standardLimits = limits{
	dial: 30 * time.Second, greeting: 5 * time.Minute, mail: 5 * time.Minute, rcpt: 5 * time.Minute,
	data: 2 * time.Minute, block: 3 * time.Minute, dot: 10 * time.Minute, beforeDot: 5 * time.Minute,
	reset: 10 * time.Second, quit: time.Second, // no e-mail depends on them
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
	reset  uint // the RSET whose answer has not been read
	closed bool
	kept   bool        // it was idle, and the server may have given it up
	domain string      // while it is in use
	since  time.Time   // when it was taken
	expiry *time.Timer // while it is idle
}

// dial connects, reads the greeting, starts TLS and logs in.
func (d *Destination) dial(ctx context.Context) (*connection, error) {
	conn, err := (&net.Dialer{Timeout: d.limits.dial}).DialContext(ctx, "tcp", d.address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(d.limits.greeting))
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c := &connection{conn: conn, limits: &d.limits, opened: time.Now()}
	encrypt := func(context.Context, string, string) (net.Conn, error) {
		limited := limitedConn{conn, io.LimitReader(conn, maxReplies)}
		if !d.tlsFirst {
			return limited, nil
		}
		return tls.Client(limited, d.tls), nil
	}
	options := append(slices.Clip(d.options), mail.WithDialContextFunc(encrypt), mail.WithHELO(d.helo(conn)))
	if d.login != nil {
		options = append(options, mail.WithSMTPAuthCustom(&login{host: d.host, as: d.login}))
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
	stepReset, stepMail, stepRcpt = "RSET", "MAIL", "RCPT"
	stepDot                       = "the dot" // from here on the server may have the e-mail
)

const blockSize = 16 << 10

// errTooLate says that the lease of the e-mail has ended before the dot.
var errTooLate = errors.New("another relay may have the e-mail now")

// transaction sends e (RFC 5321, section 3.3), unless ctx has ended before the dot. It returns the
// last step, and its error.
func (c *connection) transaction(ctx context.Context, e envelope) (last string, err error) {
	until := time.Now().Add(c.limits.beforeDot)
	step := func(name string, timeout time.Duration, do func() error) {
		if err != nil {
			return
		}
		last = name
		deadline := time.Now().Add(timeout)
		if name != stepDot && until.Before(deadline) {
			deadline = until
		}
		_ = c.conn.SetDeadline(deadline)
		err = do()
	}
	var data io.WriteCloser
	step(stepReset, c.limits.reset, c.readReset)
	step(stepMail, c.limits.mail, func() error {
		c.SkipSMTPUTF8(!e.utf8) // not every server supports it (RFC 6531, section 3.4)
		if ok, _ := c.Extension("SMTPUTF8"); e.utf8 && !ok {
			return fmt.Errorf("%w: the server does not support the letters of this address", publish.ErrInvalid)
		}
		return c.Mail("<" + e.from + ">")
	})
	step(stepRcpt, c.limits.rcpt, func() error { return c.Rcpt("<" + e.to + ">") })
	step("DATA", c.limits.data, func() (err error) { data, err = c.Data(); return err })
	for block := range slices.Chunk(e.text, blockSize) {
		step("the text", c.limits.block, func() error { _, err := data.Write(block); return err })
	}
	if err == nil && ctx.Err() != nil {
		return last, errTooLate
	}
	step(stepDot, c.limits.dot, func() error { return data.Close() })
	return last, err
}

// sendReset ends a transaction that may be open. readReset reads the answer before the next one.
func (c *connection) sendReset() (err error) {
	_ = c.conn.SetDeadline(time.Now().Add(c.limits.quit))
	c.reset, err = c.Text.Cmd("RSET")
	return err
}

func (c *connection) readReset() error {
	if c.emails == 0 {
		return nil
	}
	c.Text.StartResponse(c.reset)
	defer c.Text.EndResponse(c.reset)
	_, _, err := c.Text.ReadResponse(250)
	return err
}

// quit sends QUIT, waits a little for the answer, and closes the connection.
func (c *connection) quit() {
	defer c.close()
	_ = c.conn.SetDeadline(time.Now().Add(c.limits.quit))
	if !c.closed && c.readReset() == nil {
		_ = c.Quit()
	}
}

// close sends no QUIT. go-mail's would end an e-mail that was sent halfway, and the server would
// accept that part.
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

// SetDeadline does nothing. go-mail would give each step of the login a new deadline.
func (limitedConn) SetDeadline(time.Time) error { return nil }
