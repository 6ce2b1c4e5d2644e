package mailer

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

// SMTP sends e-mails through a mail server, over connections that it keeps open.
type SMTP struct {
	host, port string
	tls        *tls.Config
	tlsFirst   bool // before the greeting
	options    []mail.Option
	limits     limits
	pool       *pool
	sender     atomic.Pointer[string] // of the last e-mail
}

// NewSMTP reads smtp://[user:password@]host[:port] or smtps://…. The default port is 587, or 465
// for smtps. Credentials are sent over TLS only. Without credentials, STARTTLS is used if the
// server offers it. At most this many connections are in use, and at least one.
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

// Send sends m to the server. It waits for a free connection. Each step has the timeout of
// RFC 5321, and Send stops when ctx ends.
func (s *SMTP) Send(ctx context.Context, m Email) error {
	e, err := m.envelope()
	if err != nil {
		return err
	}
	s.sender.Store(&e.from)
	err = s.runSteps(ctx, func(c *connection) []step { return c.sendSteps(e) })
	return classify(withoutAddress(err, m.To))
}

// Probe does the steps that all e-mails have in common. It logs in, and asks whether the server
// would accept another e-mail from the last sender.
func (s *SMTP) Probe(ctx context.Context) error {
	err := s.runSteps(ctx, func(c *connection) []step { return c.probeSteps(s.sender.Load()) })
	if _, known := errors.AsType[*UnavailableError](err); err == nil || known {
		return err
	}
	return &UnavailableError{Cause: err}
}

// Close closes the idle connections. An e-mail that is being sent goes on, and its connection is
// closed after it.
func (s *SMTP) Close() { s.pool.close() }

// runSteps does the steps over an idle connection, or over a new one. If the server has closed
// the idle connection, the steps are repeated once over a new one, unless the server may have
// the e-mail.
func (s *SMTP) runSteps(ctx context.Context, steps func(*connection) []step) error {
	if err := s.pool.acquire(ctx); err != nil {
		return &UnavailableError{Cause: fmt.Errorf("waiting for a connection: %w", err)}
	}
	var c *connection
	defer func() { s.pool.release(c) }()
	until := time.Now().Add(s.limits.beforeDot)
	if c = s.pool.takeIdle(); c != nil {
		err := c.run(ctx, until, steps(c))
		if ctx.Err() != nil || !retryOnNewConnection(err) {
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
