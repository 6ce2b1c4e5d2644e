// Package mailserver is an SMTP server for tests. It records every e-mail, and can inject faults.
package mailserver

import (
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// Server accepts e-mails on a free port, also several over one connection.
type Server struct {
	server  *smtp.Server
	address string

	mu       sync.Mutex
	fault    Fault
	injected int           // how often a fault had an effect
	held     int           // clients that wait until the fault changes
	changed  chan struct{} // closed when the fault changes
	mails    []Mail
	asked    map[string]int // times, by recipient
}

// Mail is an e-mail that the mail server accepted.
type Mail struct {
	MessageID, To, Subject string
	Bodies                 []string // plain text and HTML
	Date                   time.Time
	At                     time.Time // when it was accepted
	Cut                    bool      // the server closed the connection instead of answering
}

// Open starts a server.
func Open() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{address: listener.Addr().String(), changed: make(chan struct{}), asked: map[string]int{}}
	s.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, conn: c}, nil
	}))
	s.server.Domain = "localhost"
	s.server.ErrorLog = log.New(io.Discard, "", 0) // faults close connections
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
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

// Mails returns the accepted e-mails.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

// Copies counts the accepted e-mails by Message-ID.
func (s *Server) Copies() map[string]int {
	copies := map[string]int{}
	for _, m := range s.Mails() {
		copies[m.MessageID]++
	}
	return copies
}

func (s *Server) record(m Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.At = time.Now()
	s.mails = append(s.mails, m)
}
