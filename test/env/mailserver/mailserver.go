// Package mailserver is an SMTP server for tests. It records every e-mail, and can inject faults.
package mailserver

import (
	"mime"
	"net"
	"sync"
	"time"

	"example.com/transactional-outbox/test/env/smtptest"
)

// Server accepts e-mails on a free port, also several over one connection.
type Server struct {
	smtp    smtptest.Server
	address string
	stop    func()

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
	s.smtp.At, s.smtp.Take = s.rcpt, s.take
	s.stop = s.smtp.Serve(listener)
	return s, nil
}

// Address returns the address of the server.
func (s *Server) Address() string { return s.address }

// Close stops the server.
func (s *Server) Close() {
	s.SetFault(Fault{})
	s.stop()
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

// rcpt returns the reply to RCPT, or "" for the usual one.
func (s *Server) rcpt(_, to string) string {
	if reply := s.answer(to); reply != "" {
		return reply
	}
	fault, applies := s.faultAt(to, func(f Fault) bool { return f.RcptDelay > 0 || f.Code > 0 && !f.AfterData })
	if !applies {
		return ""
	}
	s.wait(fault.RcptDelay)
	return fault.Refusal()
}

// take records an e-mail, and returns the reply or "". A malformed one is refused, because a mail
// program could not show it.
func (s *Server) take(e smtptest.Email) string {
	m, err := read(e)
	if err != nil {
		return "554 5.6.0 " + err.Error()
	}
	if fault, applies := s.faultAt(m.To, func(f Fault) bool { return f.AfterData && f.Code > 0 }); applies {
		return fault.Refusal()
	}
	_, m.Cut = s.faultAt(m.To, func(f Fault) bool { return f.Drop })
	s.record(m)
	if m.Cut {
		return smtptest.HangUp
	}
	s.hold(m.To)
	if fault, late := s.faultAt(m.To, func(f Fault) bool { return f.DataDelay > 0 }); late {
		s.wait(fault.DataDelay)
	}
	return ""
}

func read(e smtptest.Email) (m Mail, err error) {
	header, parts, err := e.Parse()
	if err != nil {
		return m, err
	}
	m.To, m.MessageID = e.To, header.Get("Message-ID")
	m.Date, _ = header.Date() // zero without a date
	for _, part := range parts {
		m.Bodies = append(m.Bodies, part.Body)
	}
	m.Subject, err = new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
	return m, err
}

func (s *Server) record(m Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.At = time.Now()
	s.mails = append(s.mails, m)
}
