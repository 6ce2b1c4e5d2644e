package system

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-smtp"
)

// mailServer is an SMTP server that records the e-mails it accepts. It accepts all of them
// unless the test sets other replies.
//
// An e-mail counts as accepted also when the client does not wait for the reply: a real
// server delivers it as well.
type mailServer struct {
	url         string
	connections atomic.Int64
	recipients  atomic.Int64 // RCPT commands

	mu        sync.Mutex
	received  []email
	attempts  map[string]int                     // RCPT commands by address
	refusals  map[string]func(attempt int) error // the replies to RCPT by address
	rcpt      func(to string) error              // the reply to each RCPT
	endOfData func(to string) error              // the reply to the dot that ends each e-mail
}

type email struct{ messageID, to, subject, text string }

func startMailServer(t *testing.T) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := &mailServer{
		url: "smtp://" + listener.Addr().String(), attempts: map[string]int{}, refusals: map[string]func(int) error{},
	}
	m.acceptAll()
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		m.connections.Add(1)
		return &mailSession{server: m, conn: c}, nil
	}))
	server.Domain = "localhost"
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return m
}

// emails returns the accepted e-mails by Message-ID.
func (m *mailServer) emails() map[string][]email {
	m.mu.Lock()
	defer m.mu.Unlock()
	byID := map[string][]email{}
	for _, e := range m.received {
		byID[e.messageID] = append(byID[e.messageID], e)
	}
	return byID
}

// accepted counts the accepted e-mails, including repeats.
func (m *mailServer) accepted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.received)
}

// awaitAccepted waits until the server has accepted n e-mails.
func (m *mailServer) awaitAccepted(t *testing.T, n int) {
	t.Helper()
	if !eventually(shortTimeout, func() bool { return m.accepted() >= n }) {
		t.Fatalf("the mail server accepted %d e-mails, want %d", m.accepted(), n)
	}
}

// attemptsFor counts the RCPT commands for an address.
func (m *mailServer) attemptsFor(address string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attempts[address]
}

// mailSession is one connection of a client.
type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	to     string
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	s.server.recipients.Add(1)
	rcpt, _ := s.server.replies()
	if err := rcpt(to); err != nil {
		return s.reply(err)
	}
	s.server.mu.Lock()
	s.server.attempts[to]++
	attempt, refusal := s.server.attempts[to], s.server.refusals[to]
	s.server.mu.Unlock()
	if refusal == nil {
		return nil
	}
	return refusal(attempt)
}

func (s *mailSession) Data(r io.Reader) error {
	received, err := readEmail(s.to, r)
	if err != nil {
		return err
	}
	_, endOfData := s.server.replies()
	if err := endOfData(s.to); err != nil {
		return s.reply(err)
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.received = append(s.server.received, received)
	return nil
}

func readEmail(to string, r io.Reader) (email, error) {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return email{}, err
	}
	text, err := io.ReadAll(message.Body)
	return email{
		messageID: message.Header.Get("Message-ID"), to: to, subject: message.Header.Get("Subject"), text: string(text),
	}, err
}

// errHangUp makes the server reply 421 and close the connection, as RFC 5321 requires.
var errHangUp = errors.New("421 and the end of the connection")

func (s *mailSession) reply(err error) error {
	if errors.Is(err, errHangUp) {
		_, _ = fmt.Fprint(s.conn.Conn(), "421 4.3.2 closing the connection\r\n")
		_ = s.conn.Close()
	}
	return err
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }
