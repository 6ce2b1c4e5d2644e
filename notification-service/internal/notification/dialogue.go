package notification

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// dialogue is a connection to the mail server that is ready for an e-mail.
type dialogue struct {
	client  *mail.Client
	session *smtp.Client
	conn    net.Conn // nil until it is dialled
	unbind  func() bool
}

// open connects, greets, encrypts and logs in. What goes wrong there is no e-mail's
// fault.
func (s *SMTP) open(ctx context.Context, utf8 bool) (*dialogue, error) {
	talk := &dialogue{unbind: func() bool { return true }}
	err := talk.begin(ctx, s, utf8)
	if err != nil {
		talk.end()
		return nil, &UnavailableError{Cause: explained(ctx, err)}
	}
	return talk, nil
}

func (d *dialogue) begin(ctx context.Context, s *SMTP, utf8 bool) (err error) {
	// go-mail gives its dialler a context that ends with the dialling: ctx is the one
	// that counts.
	dial := func(context.Context, string, string) (net.Conn, error) { return d.dial(ctx, s) }
	options := append([]mail.Option{mail.WithDialContextFunc(dial)}, s.options...)
	if !utf8 {
		options = append(options, mail.WithoutSMTPUTF8())
	}
	if d.client, err = mail.NewClient(s.host, options...); err != nil {
		return err
	}
	d.session, err = d.client.DialToSMTPClientWithContext(ctx)
	return err
}

// dial binds the connection to ctx.
func (d *dialogue) dial(ctx context.Context, s *SMTP) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address())
	if err != nil {
		return nil, err
	}
	d.conn = conn
	d.unbind = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if !s.tlsFirst {
		return bound{conn}, nil
	}
	encrypted := tls.Client(bound{conn}, s.tls)
	return encrypted, encrypted.HandshakeContext(ctx)
}

// bound is a connection whose deadline is the end of a context. go-mail would set
// another with every step, and a slow server could go on for ever.
type bound struct{ net.Conn }

// SetDeadline leaves it where it is.
func (bound) SetDeadline(time.Time) error { return nil }

// goodbyeTimeout is short: nothing depends on the goodbye, and the e-mail is not yet
// marked sent.
const goodbyeTimeout = time.Second

// goodbye is for after success only. After a failure go-mail's QUIT could end an
// e-mail that was sent halfway, and the server would take it for the whole.
func (d *dialogue) goodbye() {
	d.unbind()
	_ = d.conn.SetDeadline(time.Now().Add(goodbyeTimeout))
	_ = d.session.Quit()
}

// end closes the connection, also one that go-mail has given up.
func (d *dialogue) end() {
	d.unbind()
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

// explained adds that ctx has ended, when that is why err happened.
func explained(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}
