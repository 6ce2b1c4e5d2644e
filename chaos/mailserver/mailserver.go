// Package mailserver is a mail server with a ledger, which can be told to misbehave.
package mailserver

import (
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"example.com/transactional-outbox/chaos/checker"
)

// Server takes e-mails on a port of its own, several over one connection if the client
// wants that.
type Server struct {
	server  *smtp.Server
	address string
	closed  chan struct{}

	mu        sync.Mutex
	mood      Mood
	moody     int // how often it was, for the faults as seen from outside
	held      int // clients that wait for the next mood
	next      chan struct{}
	connected []time.Time     // when each connection began
	accepted  []time.Time     // when each recipient was accepted
	refused   map[string]bool // the recipients
	taken     []checker.Mail
}

// Open starts a server.
func Open() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return nil, err
	}
	s := &Server{address: listener.Addr().String(), closed: make(chan struct{}), next: make(chan struct{}), refused: map[string]bool{}}
	s.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, conn: c}, nil
	}))
	s.server.Domain = "localhost"
	s.server.ErrorLog = log.New(io.Discard, "", 0) // that clients break off is what this is for
	go func() { _ = s.server.Serve(counted{listener, s}) }()
	return s, nil
}

// counted is a listener that notes when each connection begins.
type counted struct {
	net.Listener
	server *Server
}

// Accept notes the time.
func (l counted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		l.server.connected = append(l.server.connected, time.Now())
	}
	return conn, err
}

// Address is where it listens.
func (s *Server) Address() string { return s.address }

// Close ends it.
func (s *Server) Close() {
	close(s.closed)
	s.Feel(Mood{})
	_ = s.server.Close()
}

// Misbehaved counts what was refused, delayed or dropped.
func (s *Server) Misbehaved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moody
}

// ConnectionsSince counts the connections that clients have begun since then.
func (s *Server) ConnectionsSince(then time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return countSince(s.connected, then)
}

func countSince(times []time.Time, then time.Time) (n int) {
	for i := len(times) - 1; i >= 0 && !times[i].Before(then); i-- {
		n++
	}
	return n
}

// Refused are the recipients of whom an e-mail was refused at least once.
func (s *Server) Refused() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for to := range s.refused {
		all = append(all, to)
	}
	return all
}

// Mails returns what was taken so far.
func (s *Server) Mails() []checker.Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]checker.Mail(nil), s.taken...)
}

func (s *Server) take(m checker.Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, m)
}
