package systemtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-smtp"
)

// scriptedMail is a mail server whose answers a test decides: to each RCPT, and to the dot
// that ends each e-mail. nil takes it. Its ledger has what it took, also when the client
// did not wait for the answer: a real server delivers that as well.
type scriptedMail struct {
	*mailServer
	opened atomic.Int64 // connections
	asked  atomic.Int64 // recipients

	script sync.Mutex
	rcpt   func(to string) error
	dot    func(to string) error
}

// errHangUp makes the server say 421 and close the connection, as RFC 5321 asks for.
var errHangUp = errors.New("421 and the end of the connection")

// scriptMail puts a scripted mail server in the place of the system's own.
func (s *system) scriptMail() *scriptedMail {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(s.T, err)
	m := &scriptedMail{mailServer: &mailServer{
		url: "smtp://" + listener.Addr().String(), refusal: map[string]func(int) error{}, tries: map[string]int{},
	}}
	m.takeAll()
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		m.opened.Add(1)
		return &scriptedSession{mailSession{server: m.mailServer}, m, c}, nil
	}))
	server.Domain = "localhost"
	go func() { _ = server.Serve(listener) }()
	s.Cleanup(func() { _ = server.Close() })
	s.mail = m.mailServer
	return m
}

// answer sets both answers.
func (m *scriptedMail) answer(rcpt, dot func(to string) error) {
	m.script.Lock()
	defer m.script.Unlock()
	m.rcpt, m.dot = rcpt, dot
}

func accept(string) error { return nil }

func (m *scriptedMail) takeAll() { m.answer(accept, accept) }

func (m *scriptedMail) answers() (rcpt, dot func(to string) error) {
	m.script.Lock()
	defer m.script.Unlock()
	return m.rcpt, m.dot
}

// copies counts the e-mails, repeats too.
func (m *scriptedMail) copies() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.taken)
}

// scriptedSession is one connection of a client.
type scriptedSession struct {
	mailSession
	script *scriptedMail
	conn   *smtp.Conn
}

func (s *scriptedSession) Rcpt(to string, options *smtp.RcptOptions) error {
	s.script.asked.Add(1)
	rcpt, _ := s.script.answers()
	if err := rcpt(to); err != nil {
		return s.say(err)
	}
	return s.mailSession.Rcpt(to, options)
}

func (s *scriptedSession) Data(r io.Reader) error {
	letter, err := readLetter(s.to, r)
	if err != nil {
		return err
	}
	_, dot := s.script.answers()
	if err := dot(s.to); err != nil {
		return s.say(err)
	}
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.taken = append(s.script.taken, letter)
	return nil
}

func (s *scriptedSession) say(err error) error {
	if errors.Is(err, errHangUp) {
		_, _ = fmt.Fprint(s.conn.Conn(), "421 4.3.2 closing the connection\r\n")
		_ = s.conn.Close()
	}
	return err
}

// refuseAll is a refusal of everybody; class, subject and detail make the enhanced code.
func refuseAll(code, class, subject, detail int) func(to string) error {
	return func(string) error {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{class, subject, detail}, Message: "scripted"}
	}
}

// onlyFor gives an answer to one recipient, and takes the others.
func onlyFor(address string, answer func(string) error) func(to string) error {
	return func(to string) error {
		if to == address {
			return answer(to)
		}
		return nil
	}
}

// heldDots are e-mails whose last dot has no answer yet.
type heldDots struct {
	waiting atomic.Int64
	answer  chan struct{}
}

// holdDots lets e-mails wait for the answer to their dot, until release.
func (m *scriptedMail) holdDots(t *testing.T) *heldDots {
	t.Helper()
	return m.holdDotsOf(t, "")
}

// holdDotsOf does so for the recipients that begin like this.
func (m *scriptedMail) holdDotsOf(t *testing.T, prefix string) *heldDots {
	t.Helper()
	h := &heldDots{answer: make(chan struct{})}
	m.answer(accept, func(to string) error {
		if !strings.HasPrefix(to, prefix) {
			return nil
		}
		h.waiting.Add(1)
		select {
		case <-h.answer:
			return nil
		case <-t.Context().Done():
			return refuseAll(451, 4, 3, 0)("")
		}
	})
	return h
}

// await returns when each worker has an e-mail that waits.
func (h *heldDots) await(t *testing.T) {
	t.Helper()
	if !within(soon, func() bool { return h.waiting.Load() >= workers }) {
		t.Fatalf("%d e-mails are at the dot, want %d", h.waiting.Load(), workers)
	}
}

// release answers all of them with 250, and takes what comes later.
func (h *heldDots) release() { close(h.answer) }
