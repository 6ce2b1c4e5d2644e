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

	mu        sync.Mutex
	fault     Fault
	injected  int           // how often a fault had an effect
	held      int           // clients that wait until the fault changes
	open      int           // connections
	changed   chan struct{} // closed when the fault changes
	connected []time.Time   // when each connection began
	accepted  []time.Time   // when each recipient was accepted
	mails     []checker.Mail
}

// Open starts a server.
func Open() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return nil, err
	}
	s := &Server{address: listener.Addr().String(), changed: make(chan struct{})}
	s.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, conn: c}, nil
	}))
	s.server.Domain = "localhost"
	s.server.ErrorLog = log.New(io.Discard, "", 0) // faults close connections
	go func() { _ = s.server.Serve(limitingListener{listener, s}) }()
	return s, nil
}

// limitingListener records when each connection begins, and refuses those that are too many.
type limitingListener struct {
	net.Listener
	server *Server
}

// Accept returns the next connection that is not refused.
func (l limitingListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.server.admit() {
			return &admitted{Conn: conn, server: l.server}, nil
		}
		_, _ = io.WriteString(conn, "421 4.3.2 too many connections\r\n")
		_ = conn.Close()
	}
}

func (s *Server) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected = append(s.connected, time.Now())
	if s.fault.MaxConnections > 0 && s.open >= s.fault.MaxConnections {
		s.count()
		return false
	}
	s.open++
	return true
}

// admitted is a connection that counts until it is closed.
type admitted struct {
	net.Conn
	server *Server
	once   sync.Once
}

// Close closes the connection.
func (c *admitted) Close() error {
	c.once.Do(func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		c.server.open--
	})
	return c.Conn.Close()
}

// Address returns the address of the server.
func (s *Server) Address() string { return s.address }

// Close stops the server.
func (s *Server) Close() {
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

// Mails returns the accepted e-mails.
func (s *Server) Mails() []checker.Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]checker.Mail(nil), s.mails...)
}

func (s *Server) record(m checker.Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.At = time.Now()
	s.mails = append(s.mails, m)
}
