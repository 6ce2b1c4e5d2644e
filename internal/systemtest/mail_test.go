package systemtest

import (
	"io"
	"net"
	"net/mail"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
)

// mailServer takes every e-mail and keeps a ledger of what it took.
type mailServer struct {
	url string

	mu    sync.Mutex
	taken []letter
}

// letter is an e-mail as the server got it.
type letter struct{ messageID, to, subject, text string }

func startMail(t *testing.T) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailServer{url: "smtp://" + listener.Addr().String()}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: m}, nil
	}))
	server.Domain = "localhost"
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return m
}

// letters returns what was taken so far, by Message-ID.
func (m *mailServer) letters() map[string][]letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	byID := map[string][]letter{}
	for _, l := range m.taken {
		byID[l.messageID] = append(byID[l.messageID], l)
	}
	return byID
}

// mailSession is one connection of a client.
type mailSession struct {
	server *mailServer
	to     string
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(message.Body)
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.taken = append(s.server.taken, letter{
		messageID: message.Header.Get("Message-ID"), to: s.to,
		subject: message.Header.Get("Subject"), text: string(text),
	})
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }
