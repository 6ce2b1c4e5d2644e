package system

import (
	"io"
	"log"
	"net"
	"net/mail"
	"slices"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
)

// mailServer is an SMTP server that keeps the e-mails that it has accepted. It accepts all of them
// unless the test sets another answer.
type mailServer struct {
	url string

	mu       sync.Mutex
	received []string // Message-IDs, in the order in which it accepted them
	asked    map[string]int
	answer   func(to string, times int) error
}

func startMailServer(t *testing.T) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := &mailServer{url: "smtp://" + listener.Addr().String(), asked: map[string]int{}}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{m}, nil
	}))
	server.Domain, server.ErrorLog = "localhost", log.New(io.Discard, "", 0) // the service closes connections
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return m
}

// answerWith sets what the server answers to each RCPT: nil, or a refusal. It knows how often the
// server has been asked about this recipient.
func (m *mailServer) answerWith(answer func(to string, times int) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

var (
	errNotNow   = &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "scripted"}
	errNoSuchTo = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "scripted"}
)

// accepted returns the Message-IDs of the accepted e-mails, in their order.
func (m *mailServer) accepted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.received)
}

// copies counts the accepted e-mails by Message-ID.
func (m *mailServer) copies() map[string]int {
	count := map[string]int{}
	for _, id := range m.accepted() {
		count[id]++
	}
	return count
}

// mailSession is one connection of a client.
type mailSession struct{ server *mailServer }

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.server.mu.Lock()
	s.server.asked[to]++
	times, answer := s.server.asked[to], s.server.answer
	s.server.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(to, times)
}

func (s *mailSession) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, message.Body); err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.received = append(s.server.received, message.Header.Get("Message-ID"))
	return nil
}

func (s *mailSession) Reset() {}

func (s *mailSession) Logout() error { return nil }
