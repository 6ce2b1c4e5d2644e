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

// SMTP sends e-mails through a server, each over a connection of its own.
type SMTP struct {
	host, port string
	tls        *tls.Config
	tlsFirst   bool // before the greeting
	options    []mail.Option
	timeout    time.Duration          // of one e-mail, or one probe
	sender     atomic.Pointer[string] // of the last e-mail
}

// NewSMTP reads smtp://[user:password@]host[:port] or smtps://…. Without a port it
// is 587, or 465 for smtps. Credentials are sent over TLS only; without any,
// STARTTLS is used if the server offers it.
func NewSMTP(address string) (*SMTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("must be like smtp://user:password@mail.example.com:587")
	}
	s := &SMTP{host: u.Hostname(), timeout: sendTimeout, tls: &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}}
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

// settings leave out what go-mail says to be sure of an old connection: these are new.
func (s *SMTP) settings(user *url.Userinfo) []mail.Option {
	options := []mail.Option{
		mail.WithTimeout(sendTimeout), mail.WithTLSPolicy(mail.TLSOpportunistic), mail.WithTLSConfig(s.tls),
		mail.WithoutNoop(), mail.WithoutRset(),
	}
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

// Send hands m to the server. It takes no longer than ctx lets it, nor than
// sendTimeout.
func (s *SMTP) Send(ctx context.Context, m Email) error {
	message, err := m.message()
	if err != nil {
		return err
	}
	s.sender.Store(&m.From)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	talk, err := s.open(ctx, needsUTF8(m.To))
	if err != nil {
		return err
	}
	defer talk.end()
	err = talk.client.SendWithSMTPClient(talk.session, message)
	// An error of what follows, after the server took the e-mail, must not repeat it.
	if message.IsDelivered() {
		talk.goodbye()
		return nil
	}
	return verdict(explained(ctx, err))
}

// Probe goes as far as every e-mail has to: it logs in, and asks whether the server
// would take another one from the sender of the last.
func (s *SMTP) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	talk, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	defer talk.end()
	ask := talk.session.Noop
	if sender := s.sender.Load(); sender != nil {
		ask = func() error { return talk.session.Mail("<" + *sender + ">") }
	}
	if err := ask(); err != nil {
		return &UnavailableError{Cause: explained(ctx, err)}
	}
	talk.goodbye()
	return nil
}

func (s *SMTP) address() string { return net.JoinHostPort(s.host, s.port) }
