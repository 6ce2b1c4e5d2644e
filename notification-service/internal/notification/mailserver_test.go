package notification

import (
	"io"
	"net"
	"net/mail"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mailServer is a real one that keeps what it took.
type mailServer struct {
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
func startMail(t *testing.T) (*mailServer, *SMTP) {
	t.Helper()
	listener := listen(t)
	m := &mailServer{}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{mailServer: m}, nil
	}))
	server.Domain = "localhost"
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		_ = listener.Close() // of a server that has not begun to serve
		serving.Wait()
	})
	return m, newMailer(t, "smtp://"+listener.Addr().String())
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func newMailer(t *testing.T, url string) *SMTP {
	t.Helper()
	mailer, err := NewSMTP(url)
	if err != nil {
		t.Fatal(err)
	}
	return mailer
}

func (m *mailServer) letters() []taken {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken
}

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

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

// letterToAda is an e-mail whose text a careless client would cut at the dot.
func letterToAda() Email {
	return Email{
		ID: "42@example.com", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), From: "shop@example.com", To: "ada@example.com",
		Subject: "Grüße", Text: "Hello\n.\nAda\n", HTML: "<p>Hello\n.\nAda</p>\n",
	}
}
