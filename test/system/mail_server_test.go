package system

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/mail"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// mailServer is an SMTP server that keeps the e-mails that it has accepted. It accepts all of them
// unless the test sets other answers.
//
// An e-mail counts as accepted also if the client does not wait for the answer: a real server
// delivers it as well.
type mailServer struct {
	url    string
	places atomic.Int64 // how many connections it allows at a time
	open   atomic.Int64 // connections

	mu       sync.Mutex
	received []email // in the order in which it accepted them
	asked    map[string]int
	answers
}

// answers are what the server says to each RCPT, and to the dot that ends each e-mail. Both may
// take their time.
type answers struct{ rcpt, dot func(to string) error }

type email struct {
	messageID, to, subject, text string
	at                           time.Time
}

func startMailServer(t *testing.T) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := &mailServer{url: "smtp://" + listener.Addr().String(), asked: map[string]int{}}
	m.places.Store(1000)
	m.acceptAll()
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		if m.open.Add(1) > m.places.Load() {
			m.open.Add(-1)
			return nil, hangUp(c, "421 4.7.0 too many connections\r\n")
		}
		return &mailSession{server: m, conn: c}, nil
	}))
	server.Domain, server.ErrorLog = "localhost", log.New(io.Discard, "", 0) // the service closes connections
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return m
}

// answer sets the answers from now on. Nil accepts.
func (m *mailServer) answer(a answers) {
	accept := func(string) error { return nil }
	if a.rcpt == nil {
		a.rcpt = accept
	}
	if a.dot == nil {
		a.dot = accept
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = a
}

func (m *mailServer) acceptAll() { m.answer(answers{}) }

// accepted returns the accepted e-mails, in their order.
func (m *mailServer) accepted() []email {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.received)
}

// emails returns the accepted e-mails by Message-ID.
func (m *mailServer) emails() map[string][]email {
	byID := map[string][]email{}
	for _, e := range m.accepted() {
		byID[e.messageID] = append(byID[e.messageID], e)
	}
	return byID
}

// awaitAccepted waits until the server has accepted n e-mails.
func (m *mailServer) awaitAccepted(t *testing.T, n int) {
	t.Helper()
	if !eventually(awaitTimeout, func() bool { return len(m.accepted()) >= n }) {
		t.Fatalf("the mail server accepted %d e-mails, want %d", len(m.accepted()), n)
	}
}

// timesAsked counts the RCPT commands, for one address or for all.
func (m *mailServer) timesAsked(addresses ...string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for address, times := range m.asked {
		if len(addresses) == 0 || address == addresses[0] {
			n += times
		}
	}
	return n
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
	s.server.mu.Lock()
	s.server.asked[to]++
	answer := s.server.rcpt
	s.server.mu.Unlock()
	return s.reply(answer(to))
}

func (s *mailSession) Data(r io.Reader) error {
	received, err := readEmail(s.to, r)
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	answer := s.server.dot
	s.server.mu.Unlock()
	if err = answer(s.to); err == nil || errors.Is(err, errLost) {
		s.server.mu.Lock()
		received.at = time.Now()
		s.server.received = append(s.server.received, received)
		s.server.mu.Unlock()
	}
	return s.reply(err)
}

func readEmail(to string, r io.Reader) (email, error) {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return email{}, err
	}
	text, err := io.ReadAll(message.Body)
	return email{message.Header.Get("Message-ID"), to, message.Header.Get("Subject"), string(text), time.Time{}}, err
}

var (
	// errHangUp is 421 and the end of the connection, as RFC 5321 requires.
	errHangUp = errors.New("421 and the end of the connection")
	// errLost ends the connection without an answer. After the dot, the e-mail is accepted.
	errLost = errors.New("the end of the connection")
)

func (s *mailSession) reply(err error) error {
	switch {
	case errors.Is(err, errHangUp):
		return hangUp(s.conn, "421 4.3.2 closing the connection\r\n")
	case errors.Is(err, errLost):
		return hangUp(s.conn, "")
	}
	return err
}

func hangUp(c *smtp.Conn, last string) error {
	_, _ = fmt.Fprint(c.Conn(), last)
	_ = c.Conn().Close()
	return errLost
}

func (s *mailSession) Reset() {}

func (s *mailSession) Logout() error {
	s.server.open.Add(-1)
	return nil
}
