package mailer

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
)

// script has a server's reply at each step: the greeting, a command, and the dot that ends an
// e-mail. "MAIL 2" is the second MAIL of all connections. Other steps succeed.
type script map[string]string

// Instead of an answer, a server may do one of these.
const (
	hangUp      = "hang up"
	silence     = "silence"
	drip        = "drip"         // an answer without end, byte by byte
	flood       = "flood"        // an answer without end, as fast as it can be read
	stopReading = "stop reading" // the usual answer, and then it reads nothing until resume is closed
	delayed     = "delayed"      // the usual answer, after the server's delay
)

var answers = script{
	"greeting": "220 localhost", "EHLO": "250 localhost", "MAIL": "250 OK", "RCPT": "250 OK", "DATA": "354 go on",
	".": "250 OK", "QUIT": "221 bye", "NOOP": "250 OK", "RSET": "250 OK", "AUTH": "235 welcome", "STARTTLS": "220 go on",
}

// scriptedServer is a server that follows its script.
type scriptedServer struct {
	script   script
	tls      *tls.Config // for STARTTLS
	tlsFirst bool
	delay    time.Duration
	resume   chan struct{}
	reached  chan string // the steps at which it keeps its client waiting

	mu       sync.Mutex
	commands []string
	steps    map[string]int // how often each was reached
}

// start returns the server's host and port.
func (s *scriptedServer) start(t testing.TB) string {
	t.Helper()
	s.steps, s.resume = map[string]int{}, make(chan struct{})
	s.reached = make(chan string, 10)
	listener := mailertest.Listen(t)
	t.Cleanup(s.serveOn(listener))
	return listener.Addr().String()
}

// serveAt serves at an address that another server had, until end.
func (s *scriptedServer) serveAt(t testing.TB, address string) (end func()) {
	t.Helper()
	s.steps, s.reached = map[string]int{}, make(chan string, 10)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return s.serveOn(listener)
}

func (s *scriptedServer) serveOn(listener net.Listener) (end func()) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				s.serve(conn)
			})
		}
	})
	return func() {
		_ = listener.Close()
		serving.Wait()
	}
}

func (s *scriptedServer) serve(conn net.Conn) {
	if s.tlsFirst {
		conn = tls.Server(conn, s.tls)
	}
	if s.reply(conn, "greeting") == "" {
		return
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		verb, _, _ := strings.Cut(s.record(lines.Text()), " ")
		answer := s.reply(conn, verb)
		switch {
		case answer == "":
			return
		case verb == "STARTTLS":
			conn = tls.Server(conn, s.tls)
			lines = bufio.NewScanner(conn)
		case verb == "DATA" && strings.HasPrefix(answer, "354"):
			for lines.Scan() && lines.Text() != "." {
				continue
			}
			if s.reply(conn, ".") == "" {
				return
			}
		}
	}
}

func (s *scriptedServer) record(line string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, line)
	return line
}

// reply returns the reply, or "" if the connection ends.
func (s *scriptedServer) reply(conn net.Conn, step string) string {
	answer := cmp.Or(s.scriptedReply(step), s.usualReply(conn, step))
	switch answer {
	case delayed:
		s.reached <- step
		time.Sleep(s.delay)
		answer = s.usualReply(conn, step)
	case stopReading:
		_, _ = fmt.Fprintf(conn, "%s\r\n", s.usualReply(conn, step))
		<-s.resume
		return ""
	case flood:
		for {
			if _, err := conn.Write([]byte("250-and so on\r\n")); err != nil {
				return ""
			}
		}
	case hangUp:
		return ""
	case silence:
		s.reached <- step
		_, _ = io.Copy(io.Discard, conn)
		return ""
	case drip:
		s.reached <- step
		for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
			if _, err := conn.Write([]byte("2")); err != nil {
				return ""
			}
		}
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", answer); err != nil {
		return ""
	}
	return answer
}

// scriptedReply is the answer of the script, if it has one.
func (s *scriptedServer) scriptedReply(step string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[step]++
	return cmp.Or(s.script[fmt.Sprintf("%s %d", step, s.steps[step])], s.script[step])
}

// times is how often a step was reached.
func (s *scriptedServer) times(step string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps[step]
}

func (s *scriptedServer) usualReply(conn net.Conn, step string) string {
	_, encrypted := conn.(*tls.Conn)
	switch {
	case step == "EHLO" && encrypted:
		return "250-localhost\r\n250 AUTH PLAIN LOGIN"
	case step == "EHLO" && s.tls != nil:
		return "250-localhost\r\n250 STARTTLS"
	default:
		return answers[step]
	}
}

// said reports whether a client has given a command.
func (s *scriptedServer) said(command string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.commands {
		if strings.HasPrefix(line, command) {
			return true
		}
	}
	return false
}

// certificate is one for 127.0.0.1, and the pool that trusts it.
func certificate() (*tls.Config, *x509.CertPool) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	return &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}, trusted
}
