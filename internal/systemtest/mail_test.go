package systemtest

import (
	"io"
	"math"
	"net"
	"net/mail"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
)

// mailServer takes every e-mail and keeps a ledger of what it took.
type mailServer struct {
	url string

	mu      sync.Mutex
	taken   []letter
	refusal map[string]func(try int) error
	tries   map[string]int
}

// letter is an e-mail as the server got it.
type letter struct{ messageID, to, subject, text string }

func startMail(t *testing.T) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailServer{
		url: "smtp://" + listener.Addr().String(), refusal: map[string]func(int) error{}, tries: map[string]int{},
	}
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

// refuse answers each RCPT to an address with what refusal says of the try, from 1;
// nil takes it.
func (m *mailServer) refuse(address string, refusal func(try int) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal[address] = refusal
}

// refused is a refusal with one code, so many times.
func refused(code, times int) func(try int) error {
	return func(try int) error {
		if try > times {
			return nil
		}
		return &smtp.SMTPError{Code: code, EnhancedCode: aboutTheRecipient(code), Message: "scripted"}
	}
}

// aboutTheRecipient is the enhanced code of a refusal that is the recipient's own: no such
// mailbox, or a mailbox that is disabled now.
func aboutTheRecipient(code int) smtp.EnhancedCode {
	if code >= 500 {
		return smtp.EnhancedCode{5, 1, 1}
	}
	return smtp.EnhancedCode{4, 2, 1}
}

const always = math.MaxInt

// triesOf returns how often an address was asked for.
func (m *mailServer) triesOf(address string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tries[address]
}

// mailSession is one connection of a client.
type mailSession struct {
	server *mailServer
	to     string
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	s.server.mu.Lock()
	s.server.tries[to]++
	try, refusal := s.server.tries[to], s.server.refusal[to]
	s.server.mu.Unlock()
	if refusal == nil {
		return nil
	}
	return refusal(try)
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
