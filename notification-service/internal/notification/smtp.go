package notification

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wneessen/go-mail"
)

// SMTP sends e-mails through a server, over connections that it keeps.
type SMTP struct {
	host, port string
	tls        *tls.Config
	tlsFirst   bool // before the greeting
	options    []mail.Option
	limits     limits
	pool       *pool
	sender     atomic.Pointer[string] // of the last e-mail
}

// NewSMTP reads smtp://[user:password@]host[:port] or smtps://…. Without a port it
// is 587, or 465 for smtps. Credentials are sent over TLS only; without any,
// STARTTLS is used if the server offers it. At most that many connections are in use,
// and at least one.
func NewSMTP(address string, connections int) (*SMTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("must be like smtp://user:password@mail.example.com:587")
	}
	s := &SMTP{
		host: u.Hostname(), tls: &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12},
		limits: defaultLimits(), pool: newPool(connections),
	}
	switch u.Scheme {
	case "smtp":
		s.port = cmp.Or(u.Port(), "587")
	case "smtps":
		s.port, s.tlsFirst = cmp.Or(u.Port(), "465"), true
	default:
		return nil, fmt.Errorf("scheme %q is neither smtp nor smtps", u.Scheme)
	}
	if port, err := strconv.ParseUint(s.port, 10, 16); err != nil || port == 0 {
		return nil, fmt.Errorf("port %q is not between 1 and 65535", s.port)
	}
	s.options = s.settings(u.User)
	return s, nil
}

func (s *SMTP) settings(user *url.Userinfo) []mail.Option {
	options := []mail.Option{mail.WithTLSPolicy(mail.TLSOpportunistic), mail.WithTLSConfig(s.tls)}
	password, ok := user.Password()
	if !ok {
		return options
	}
	options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(user.Username()), mail.WithPassword(password))
	if s.tlsFirst {
		return options // it is encrypted already
	}
	return append(options, mail.WithTLSPolicy(mail.TLSMandatory))
}

// Send hands m to the server. It waits for a free connection, and then takes no longer
// than ctx lets it, nor than RFC 5321 asks for at each step.
func (s *SMTP) Send(ctx context.Context, m Email) error {
	e, err := m.envelope()
	if err != nil {
		return err
	}
	s.sender.Store(&e.from)
	err = s.talk(ctx, func(c *connection) []step { return c.transaction(e) })
	return verdict(withoutAddress(err, m.To))
}

// Probe goes as far as every e-mail has to: it logs in, and asks whether the server
// would take another one from the sender of the last.
func (s *SMTP) Probe(ctx context.Context) error {
	err := s.talk(ctx, func(c *connection) []step { return c.question(s.sender.Load()) })
	if _, known := errors.AsType[*UnavailableError](err); err == nil || known {
		return err
	}
	return &UnavailableError{Cause: err}
}

// Close ends the connections that are kept. What is being sent goes on, and keeps its
// connection no longer than that.
func (s *SMTP) Close() { s.pool.close() }

// talk does the steps over a kept connection, or over a new one. A kept connection that
// the server has given up is replaced once, as long as it cannot have taken the e-mail.
func (s *SMTP) talk(ctx context.Context, steps func(*connection) []step) error {
	if err := s.pool.acquire(ctx); err != nil {
		return &UnavailableError{Cause: fmt.Errorf("waiting for a connection: %w", err)}
	}
	var c *connection
	defer func() { s.pool.release(c) }()
	until := time.Now().Add(s.limits.beforeDot)
	if c = s.pool.kept(); c != nil {
		err := c.run(ctx, until, steps(c))
		if ctx.Err() != nil || !outdated(err) {
			return err
		}
		c.close()
	}
	var err error
	if c, err = s.open(ctx, until); err != nil {
		return err
	}
	return c.run(ctx, until, steps(c))
}

func (s *SMTP) address() string { return net.JoinHostPort(s.host, s.port) }
