package mailer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

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
	if err := c.open(ctx, d, as); err != nil {
		c.close()
		return nil, readable(err)
	}
	return c, nil
}

// open reads the greeting, starts TLS and logs in.
func (c *connection) open(ctx context.Context, d *Destination, as *url.Userinfo) error {
	var first net.Conn = replyConn{c.conn, io.LimitReader(c.conn, maxReplies)}
	encrypted, name := tls.Client(first, d.tls), d.helo(c.conn)
	if d.tlsFirst {
		first = encrypted
	}
	if err := c.hello(first, d.host, name); err != nil {
		return err
	}
	offered, _ := c.Extension("STARTTLS")
	switch {
	case d.tlsFirst:
	case offered:
		if err := c.startTLS(ctx, encrypted); err != nil {
			return err
		}
		// The server gives no second greeting, but go-mail waits for one.
		greeted := replyConn{encrypted, io.MultiReader(strings.NewReader("220 TLS\r\n"), encrypted)}
		if err := c.hello(greeted, d.host, name); err != nil {
			return err
		}
	case as != nil:
		return errors.New("the server does not offer STARTTLS, and the password is sent over TLS only: use smtps://")
	}
	if as == nil {
		return nil
	}
	if err := c.Auth(&login{host: d.host, as: as}); err != nil {
		return fmt.Errorf("SMTP AUTH failed: %w", err)
	}
	return nil
}

// hello reads the greeting and sends EHLO.
func (c *connection) hello(over net.Conn, host, name string) (err error) {
	if c.Client, err = smtp.NewClient(over, host); err != nil {
		return err
	}
	replies := c.Text.R
	defer func() { c.Text.R = replies }() // transaction looks there for a reply too many
	c.Text.R = bufio.NewReader(&ehloReply{replies: replies})
	return c.Hello(name)
}

// startTLS is used instead of go-mail's, which sends EHLO itself and then knows upper case only.
func (c *connection) startTLS(ctx context.Context, encrypted *tls.Conn) error {
	if err := c.Text.PrintfLine("STARTTLS"); err != nil {
		return err
	}
	if _, _, err := c.Text.ReadResponse(220); err != nil {
		return err
	}
	return encrypted.HandshakeContext(ctx)
}

// ehloReply reads the reply to EHLO, with keywords and mechanisms in upper case: go-mail knows no
// other, but a server may send any (RFC 5321, section 2.4). Old servers write AUTH= for AUTH.
type ehloReply struct {
	replies *bufio.Reader
	line    []byte // what is left of it
}

// Read reads at most one line, so that nothing after the reply is lost.
func (r *ehloReply) Read(p []byte) (n int, err error) {
	if len(r.line) == 0 {
		r.line, err = r.replies.ReadBytes('\n')
		if err == nil && bytes.HasPrefix(r.line, []byte("250")) { // any other reply is an error, whose text is logged
			upper := bytes.Replace(bytes.ToUpper(r.line), []byte("AUTH="), []byte("AUTH "), 1)
			if r.line = bytes.TrimSpace(upper); len(r.line) == len("250") {
				r.line = append(r.line, ' ') // net/textproto wants it, but a server may leave it out
			}
			r.line = append(r.line, "\r\n"...)
		}
	}
	n = copy(p, r.line)
	r.line = r.line[n:]
	return n, err
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

// replyConn is a connection whose replies are read from elsewhere.
type replyConn struct {
	net.Conn
	replies io.Reader
}

// maxReplies bounds the memory that a reply takes: net/textproto does not.
const maxReplies = 1 << 20 // far more than the replies to 100 e-mails

// Read reads replies.
func (c replyConn) Read(p []byte) (int, error) { return c.replies.Read(p) }
