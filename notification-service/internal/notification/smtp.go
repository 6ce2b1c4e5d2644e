package notification

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/wneessen/go-mail"
)

// SMTP sends e-mails through a server.
type SMTP struct {
	host    string
	options []mail.Option
}

// NewSMTP reads smtp://[user:password@]host[:port] or smtps://…. Without a port it
// is 587, or 465 for smtps. Credentials are sent over TLS only; without any,
// STARTTLS is used if the server offers it.
func NewSMTP(address string) (*SMTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("must be like smtp://user:password@mail.example.com:587")
	}
	s := &SMTP{host: u.Hostname(), options: []mail.Option{mail.WithTimeout(sendTimeout), mail.WithTLSPolicy(mail.TLSOpportunistic)}}
	port := 587
	switch u.Scheme {
	case "smtp":
	case "smtps":
		port = 465
		s.options = append(s.options, mail.WithSSL())
	default:
		return nil, fmt.Errorf("scheme %q is neither smtp nor smtps", u.Scheme)
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return nil, fmt.Errorf("port: %w", err)
		}
	}
	s.options = append(s.options, mail.WithPort(port))
	if password, ok := u.User.Password(); ok {
		s.options = append(s.options, mail.WithTLSPolicy(mail.TLSMandatory), mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover),
			mail.WithUsername(u.User.Username()), mail.WithPassword(password))
	}
	return s, nil
}

// Send hands m to the server.
func (s *SMTP) Send(ctx context.Context, m Email) error {
	message, err := m.message()
	if err != nil {
		return &RefusedError{Reason: err.Error()}
	}
	client, err := mail.NewClient(s.host, s.options...)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, message)
	// An error of the goodbye, after the server took the e-mail, must not repeat it.
	if message.IsDelivered() {
		return nil
	}
	return verdict(err)
}

// verdict tells a refusal for good from everything else. Only an answer to this
// recipient or this message is one; a refused login, for example, is no message's
// fault.
func verdict(err error) error {
	var answer *mail.SendError
	if !errors.As(err, &answer) || answer.IsTemp() || answer.ErrorCode() < 500 {
		return err
	}
	switch answer.Reason {
	case mail.ErrSMTPRcptTo, mail.ErrSMTPData, mail.ErrSMTPDataClose:
		return &RefusedError{Reason: fmt.Sprintf("%d %s", answer.ErrorCode(), answer.Error())}
	default:
		return err
	}
}

// message builds the MIME message. Setting an address or a header encodes what
// would start a header of its own.
func (m Email) message() (*mail.Msg, error) {
	message := mail.NewMsg()
	if err := message.From(m.From); err != nil {
		return nil, err
	}
	if err := message.To(m.To); err != nil {
		return nil, err
	}
	message.SetMessageIDWithValue(m.ID)
	message.SetDate()
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office replies
	message.Subject(m.Subject)
	message.SetBodyString(mail.TypeTextPlain, m.Text)
	return message, nil
}
