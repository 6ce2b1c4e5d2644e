package notification

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/mail"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mailServer is a real one that keeps what it took.
type mailServer struct {
	tls         *tls.Config  // for STARTTLS
	connections atomic.Int32 // so far
	logins      atomic.Int32
	resets      atomic.Int32

	mu    sync.Mutex
	taken []taken
}

// taken is an e-mail with its envelope.
type taken struct {
	from   string
	to     []string
	header mail.Header
	body   []byte
}

// startMail returns a mail server, and a mailer that sends to it.
func startMail(t testing.TB) (*mailServer, *SMTP) {
	t.Helper()
	m := &mailServer{}
	return m, newMailer(t, "smtp://"+m.start(t))
}

// start returns the server's host and port.
func (m *mailServer) start(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	t.Cleanup(m.serve(t, listener))
	return listener.Addr().String()
}

// serve serves until the test calls stop.
func (m *mailServer) serve(t testing.TB, listener net.Listener) (stop func()) {
	t.Helper()
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		m.connections.Add(1)
		return &mailSession{mailServer: m}, nil
	}))
	server.Domain, server.TLSConfig, server.ErrorLog = "localhost", m.tls, log.New(io.Discard, "", 0)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	return func() {
		_ = server.Close()
		_ = listener.Close() // of a server that has not begun to serve
		serving.Wait()
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func newMailer(t testing.TB, url string) *SMTP { return newMailers(t, url, 8) }

// newMailers returns a mailer with that many connections.
func newMailers(t testing.TB, url string, connections int) *SMTP {
	t.Helper()
	mailer, err := NewSMTP(url, connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mailer.Close)
	return mailer
}

func (m *mailServer) letters() []taken {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken
}

var _ smtp.AuthSession = (*mailSession)(nil)

type mailSession struct {
	*mailServer
	envelope taken
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.envelope = taken{from: from}
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.envelope.to = append(s.envelope.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	s.envelope.header = message.Header
	if s.envelope.body, err = io.ReadAll(message.Body); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, s.envelope)
	return nil
}

func (s *mailSession) Reset()        { s.resets.Add(1) }
func (s *mailSession) Logout() error { return nil }

// AuthMechanisms and Auth let everybody in who comes over TLS.
func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, _, _ string) error { s.logins.Add(1); return nil }), nil
}

// letterToAda is an e-mail whose text a careless client would cut at the dot.
func letterToAda() Email {
	return Email{
		ID: "42@example.com", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), From: "shop@example.com", To: "ada@example.com",
		Subject: "Grüße", Text: "Hello\n.\nAda\n", HTML: "<p>Hello\n.\nAda</p>\n",
	}
}
