package notification

import (
	"errors"
	"io"
	"net"
	"net/mail"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mailServer answers by its script and keeps what it took.
type mailServer struct {
	rcpt, data error // the answers; nil takes it

	mu    sync.Mutex
	taken []*mail.Message
}

// start returns the URL of the server.
func (m *mailServer) start(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{mailServer: m, conn: c}, nil
	}))
	server.Domain = "localhost"
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return "smtp://" + listener.Addr().String()
}

func (m *mailServer) letters() []*mail.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken
}

type mailSession struct {
	*mailServer
	conn *smtp.Conn
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *mailSession) Rcpt(string, *smtp.RcptOptions) error { return s.rcpt }
func (s *mailSession) Reset()                               {}
func (s *mailSession) Logout() error                        { return nil }

func (s *mailSession) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	if s.data != nil {
		return s.data
	}
	s.mu.Lock()
	s.taken = append(s.taken, message)
	s.mu.Unlock()
	return nil
}

var letter = Email{ID: "42@example.com", From: "shop@example.com", To: "ada@example.com", Subject: "Grüße", Text: "Hello\n.\nAda\n"}

func send(t *testing.T, m *mailServer, e Email) error {
	t.Helper()
	mailer, err := NewSMTP(m.start(t))
	if err != nil {
		t.Fatal(err)
	}
	return mailer.Send(t.Context(), e)
}

func TestSMTPSendsTheEmail(t *testing.T) {
	t.Parallel()
	server := &mailServer{}
	if err := send(t, server, letter); err != nil {
		t.Fatal(err)
	}
	taken := server.letters()[0]
	for header, want := range map[string]string{
		"Message-ID": "<42@example.com>", "To": "<ada@example.com>", "From": "<shop@example.com>",
		"Subject": "=?UTF-8?q?Gr=C3=BC=C3=9Fe?=", "Auto-Submitted": "auto-generated",
	} {
		if got := taken.Header.Get(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

// TestSMTPTellsARefusalFromTrouble: only what the server will never take is refused.
func TestSMTPTellsARefusalFromTrouble(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		server  *mailServer
		refused bool
	}{
		"no such mailbox":        {server: &mailServer{rcpt: &smtp.SMTPError{Code: 550, Message: "no such user"}}, refused: true},
		"mailbox busy":           {server: &mailServer{rcpt: &smtp.SMTPError{Code: 450, Message: "busy"}}},
		"message refused":        {server: &mailServer{data: &smtp.SMTPError{Code: 554, Message: "spam"}}, refused: true},
		"try again after DATA":   {server: &mailServer{data: &smtp.SMTPError{Code: 451, Message: "later"}}},
		"closing for the moment": {server: &mailServer{rcpt: &smtp.SMTPError{Code: 421, Message: "bye"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := send(t, test.server, letter)
			_, refused := errors.AsType[*RefusedError](err)
			if err == nil || refused != test.refused {
				t.Errorf("error %v, refused %t, want %t", err, refused, test.refused)
			}
		})
	}
}

func TestSMTPWithNobodyThereIsTrouble(t *testing.T) {
	t.Parallel()
	mailer, err := NewSMTP("smtp://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	err = mailer.Send(t.Context(), letter)
	if _, refused := errors.AsType[*RefusedError](err); err == nil || refused {
		t.Errorf("error %v, want trouble", err)
	}
}

func TestSMTPRefusesHeaderInjection(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{"ada@example.com\r\nBcc: eve@example.com", "ada@example.com\nX: y"} {
		server := &mailServer{}
		e := letter
		e.To = evil
		err := send(t, server, e)
		if _, refused := errors.AsType[*RefusedError](err); !refused || len(server.letters()) > 0 {
			t.Errorf("to %q: error %v, %d sent", evil, err, len(server.letters()))
		}
	}
	server := &mailServer{}
	e := letter
	e.Subject = "Hello\r\nBcc: eve@example.com"
	if err := send(t, server, e); err != nil {
		t.Fatal(err)
	}
	if bcc := server.letters()[0].Header.Get("Bcc"); bcc != "" {
		t.Errorf("the subject made a header Bcc: %q", bcc)
	}
}

func TestNewSMTPWantsAURL(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "mail.example.com:25", "http://mail.example.com", "smtp://", "smtp://h:port"} {
		if _, err := NewSMTP(bad); err == nil {
			t.Errorf("took %q", bad)
		}
	}
}
