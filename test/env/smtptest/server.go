// Package smtptest has a mail server for tests. It keeps the e-mails that it accepts. A script
// says what it answers, and what it does instead of an answer.
package smtptest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"
)

// Script has the replies at the steps: "greeting", the commands, and ".", which ends an e-mail.
// "MAIL 2" is the second MAIL of all connections. At other steps the server gives the usual reply.
type Script map[string]string

// Instead of a reply, the server may do one of these.
const (
	HangUp  = "hang up" // also after a reply and a line break
	Silence = "silence"
	Drip    = "drip"  // a reply without end, byte by byte
	Flood   = "flood" // a reply without end, as fast as it can be read
)

var usual = Script{
	"greeting": "220 localhost", "EHLO": "250 localhost", "MAIL": "250 OK", "RCPT": "250 OK", "DATA": "354 go on",
	".": "250 OK", "QUIT": "221 bye", "NOOP": "250 OK", "RSET": "250 OK", "AUTH": "235 welcome", "STARTTLS": "220 go on",
}

// Server is a mail server. Its zero value accepts every e-mail.
type Server struct {
	Script Script
	// At is called before the reply to RCPT and ".", with the recipient. It may wait. It returns the
	// reply, or "" for the one of the script. It may be nil.
	At func(step, to string) string
	// Take is called instead for ".", and keeps the e-mail. It may be nil.
	Take     func(Email) string
	TLS      *tls.Config // for STARTTLS
	TLSFirst bool        // before the greeting

	mu       sync.Mutex
	commands []string
	steps    map[string]int
	emails   []Email
}

// Start serves until the test ends, and returns the host and the port.
func (s *Server) Start(tb testing.TB) string {
	tb.Helper()
	listener := Listen(tb)
	tb.Cleanup(s.Serve(listener))
	return listener.Addr().String()
}

// Serve serves until stop is called, which cuts all connections.
func (s *Server) Serve(listener net.Listener) (stop func()) {
	s.mu.Lock()
	s.steps = map[string]int{}
	s.mu.Unlock()
	ctx, end := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				s.serve(conn)
			})
		}
	})
	return func() {
		_ = listener.Close()
		end()
		serving.Wait()
	}
}

// Listen listens on a free port until the test ends.
func Listen(tb testing.TB) net.Listener {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	return listener
}

// Times is how often a step was reached, since Serve was called.
func (s *Server) Times(step string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps[step]
}

// Said reports whether a client has given a command that begins so.
func (s *Server) Said(command string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.commands {
		if strings.HasPrefix(line, command) {
			return true
		}
	}
	return false
}

// Received returns the e-mails that have arrived.
func (s *Server) Received() []Email {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emails
}

// serve serves one connection.
func (s *Server) serve(conn net.Conn) {
	if s.TLSFirst {
		conn = tls.Server(conn, s.TLS)
	}
	reader, to := bufio.NewReader(conn), ""
	if s.reply(conn, "greeting", "") == "" {
		return
	}
	for {
		line, err := textproto.NewReader(reader).ReadLine()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.commands = append(s.commands, line)
		s.mu.Unlock()
		verb, argument, _ := strings.Cut(line, " ")
		if verb == "RCPT" {
			to = strings.Trim(strings.TrimPrefix(argument, "TO:"), "<>")
		}
		reply := s.reply(conn, verb, to)
		switch {
		case reply == "":
			return
		case verb == "STARTTLS":
			conn = tls.Server(conn, s.TLS)
			reader = bufio.NewReader(conn)
		case verb == "DATA" && strings.HasPrefix(reply, "354"):
			text, err := textproto.NewReader(reader).ReadDotBytes()
			if err != nil || s.replyToDot(conn, to, string(text)) == "" {
				return
			}
		}
	}
}

// replyToDot keeps the e-mail before the reply, if that is the usual one.
func (s *Server) replyToDot(conn net.Conn, to, text string) string {
	e := Email{To: to, Raw: text}
	if s.Take != nil {
		return give(conn, cmp.Or(s.Take(e), usual["."]))
	}
	reply := s.next(conn, ".", to)
	if reply == usual["."] {
		s.mu.Lock()
		s.emails = append(s.emails, e)
		s.mu.Unlock()
	}
	return give(conn, reply)
}

func (s *Server) reply(conn net.Conn, step, to string) string {
	return give(conn, s.next(conn, step, to))
}

// next is the reply at a step.
func (s *Server) next(conn net.Conn, step, to string) string {
	s.mu.Lock()
	s.steps[step]++
	reply := cmp.Or(s.Script[fmt.Sprintf("%s %d", step, s.steps[step])], s.Script[step])
	s.mu.Unlock()
	if s.At != nil && (step == "RCPT" || step == ".") {
		reply = cmp.Or(s.At(step, to), reply)
	}
	_, encrypted := conn.(*tls.Conn)
	switch {
	case reply != "":
		return reply
	case step == "EHLO" && encrypted:
		return "250-localhost\r\n250 AUTH PLAIN LOGIN"
	case step == "EHLO" && s.TLS != nil:
		return "250-localhost\r\n250 STARTTLS"
	}
	return usual[step]
}

// give gives a reply, or does what stands in its place. It returns "" if the connection has ended.
func give(conn net.Conn, reply string) string {
	switch reply {
	case HangUp:
		return ""
	case Silence:
		_, _ = io.Copy(io.Discard, conn)
		return ""
	case Drip, Flood:
		text := map[string]string{Drip: "2", Flood: "250-and so on\r\n"}[reply]
		for {
			if _, err := io.WriteString(conn, text); err != nil {
				return ""
			}
			if reply == Drip {
				time.Sleep(time.Millisecond)
			}
		}
	}
	reply, last := strings.CutSuffix(reply, "\r\n"+HangUp)
	if _, err := io.WriteString(conn, reply+"\r\n"); err != nil || last {
		return ""
	}
	return reply
}

// Certificate is one for 127.0.0.1, and the pool that trusts it.
func Certificate() (*tls.Config, *x509.CertPool) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	return &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}, trusted
}
