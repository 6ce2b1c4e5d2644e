// Package mailserver is an SMTP server for tests. It records every e-mail, and can inject faults.
package mailserver

import (
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"example.com/transactional-outbox/test/chaos/checker"
)

// Server accepts e-mails on a free port, also several over one connection.
type Server struct {
	server  *smtp.Server
	address string
	closed  chan struct{}

	mu        sync.Mutex
	fault     Fault
	injected  int             // how often a fault had an effect
	held      int             // clients that wait until the fault changes
	changed   chan struct{}   // closed when the fault changes
	connected []time.Time     // when each connection began
	accepted  []time.Time     // when each recipient was accepted
	refused   map[string]bool // recipients
	mails     []checker.Mail
}

// Open starts a server.
func Open() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return nil, err
	}
	s := &Server{address: listener.Addr().String(), closed: make(chan struct{}), changed: make(chan struct{}), refused: map[string]bool{}}
	s.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, conn: c}, nil
	}))
	s.server.Domain = "localhost"
	s.server.ErrorLog = log.New(io.Discard, "", 0) // faults close connections
	go func() { _ = s.server.Serve(countingListener{listener, s}) }()
	return s, nil
}

// countingListener records when each connection begins.
type countingListener struct {
	net.Listener
	server *Server
}

// Accept records the time.
func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		l.server.connected = append(l.server.connected, time.Now())
	}
	return conn, err
}

// Address returns the address of the server.
func (s *Server) Address() string { return s.address }

// Close stops the server.
func (s *Server) Close() {
	close(s.closed)
	s.SetFault(Fault{})
	_ = s.server.Close()
}

// Injected counts the refused, delayed, held and dropped e-mails.
func (s *Server) Injected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.injected
}

// ConnectionsSince counts the connections that began at or after a time.
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

// Refused returns the recipients that were refused at least once.
func (s *Server) Refused() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for to := range s.refused {
		all = append(all, to)
	}
	return all
}

// Mails returns the accepted e-mails.
func (s *Server) Mails() []checker.Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]checker.Mail(nil), s.mails...)
}

func (s *Server) record(m checker.Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, m)
}
