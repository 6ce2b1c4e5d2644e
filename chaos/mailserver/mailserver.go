// Package mailserver is a mail server with a ledger, which can be told to misbehave.
package mailserver

import (
	"io"
	"log"
	"net"
	"net/mail"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"example.com/transactional-outbox/chaos/checker"
)

// Mood is how the server treats its clients, from now on.
type Mood struct {
	Delay time.Duration // before each answer to RCPT
	Hold  bool          // no answer to RCPT until the next mood
	Code  int           // of its answer to RCPT; 0: it takes the e-mail
	Drop  bool          // takes the e-mail, and then breaks the connection instead of saying so
	Times int           // how often, until it is kind again; 0: until the next mood
}

// Server takes e-mails on a port of its own.
type Server struct {
	server  *smtp.Server
	address string

	mu    sync.Mutex
	mood  Mood
	moody int // how often it was, for the faults as seen from outside
	held  int // clients that wait for the next mood
	next  chan struct{}
	taken []checker.Mail
}

// Open starts a server.
func Open() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return nil, err
	}
	s := &Server{address: listener.Addr().String(), next: make(chan struct{})}
	s.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, conn: c}, nil
	}))
	s.server.Domain = "localhost"
	s.server.ErrorLog = log.New(io.Discard, "", 0) // that clients break off is what this is for
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.address }

// Close ends it.
func (s *Server) Close() {
	s.Feel(Mood{})
	_ = s.server.Close()
}

// Feel changes the mood. Whoever was held is answered, even if the next one will be held
// again.
func (s *Server) Feel(m Mood) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mood, s.held = m, 0
	close(s.next)
	s.next = make(chan struct{})
}

// Held counts the clients that wait for the next mood.
func (s *Server) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// hold returns at once, or when the mood in which nobody is answered is over.
func (s *Server) hold() {
	s.mu.Lock()
	over := s.next
	held := s.mood.Hold
	if held {
		s.held++
		s.moody++
	}
	s.mu.Unlock()
	if held {
		<-over
	}
}

// Misbehaved counts what was refused, delayed or dropped.
func (s *Server) Misbehaved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moody
}

// Mails returns what was taken so far.
func (s *Server) Mails() []checker.Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]checker.Mail(nil), s.taken...)
}

// now returns the mood for one step, if it matters there.
func (s *Server) now(matters func(Mood) bool) (Mood, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mood
	if !matters(m) {
		return m, false
	}
	s.moody++
	if s.mood.Times--; m.Times > 0 && s.mood.Times == 0 {
		s.mood = Mood{}
	}
	return m, true
}

// session is one connection of a client.
type session struct {
	server *Server
	conn   *smtp.Conn
	to     string
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	s.server.hold()
	mood, bad := s.server.now(func(m Mood) bool { return m.Delay > 0 || m.Code > 0 })
	if !bad {
		return nil
	}
	time.Sleep(mood.Delay)
	if mood.Code == 0 {
		return nil
	}
	return &smtp.SMTPError{Code: mood.Code, EnhancedCode: smtp.EnhancedCodeNotSet, Message: "not now"}
}

func (s *session) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, message.Body); err != nil {
		return err
	}
	date, _ := message.Header.Date() // none is none
	s.server.take(checker.Mail{
		MessageID: message.Header.Get("Message-ID"), To: s.to, Subject: message.Header.Get("Subject"), Date: date,
	})
	if _, bad := s.server.now(func(m Mood) bool { return m.Drop }); bad {
		_ = s.conn.Close()
	}
	return nil
}

func (s *Server) take(m checker.Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, m)
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
