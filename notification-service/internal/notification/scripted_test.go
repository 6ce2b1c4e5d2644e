package notification

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
)

// script is what a server says at each step: at the greeting, to a command, and to
// the dot that ends an e-mail. "MAIL 2" is the second MAIL, of all connections. What it
// does not mention goes well.
type script map[string]string

// Instead of an answer, a server may do one of these.
const (
	hangUp  = "hang up"
	silence = "silence"
	drip    = "drip"  // an answer without end, byte by byte
	flood   = "flood" // an answer without end, as fast as it can be read
	deaf    = "deaf"  // the usual answer, and then it reads nothing until it heals
	late    = "late"  // the usual answer, after the server's delay
)

var answers = script{
	"greeting": "220 localhost", "EHLO": "250 localhost", "MAIL": "250 OK", "RCPT": "250 OK", "DATA": "354 go on",
	".": "250 OK", "QUIT": "221 bye", "NOOP": "250 OK", "RSET": "250 OK", "AUTH": "235 welcome", "STARTTLS": "220 go on",
}

// scripted is a server that does what its script says.
type scripted struct {
	script   script
	tls      *tls.Config // for STARTTLS
	tlsFirst bool
	delay    time.Duration
	heal     chan struct{}
	reached  chan string // the steps at which it keeps its client waiting

	mu    sync.Mutex
	heard []string
	steps map[string]int // how often each was reached
}

// start returns the server's host and port.
func (s *scripted) start(t testing.TB) string {
	t.Helper()
	s.steps, s.heal = map[string]int{}, make(chan struct{})
	s.reached = make(chan string, 10)
	listener := listen(t)
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
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

func (s *scripted) serve(conn net.Conn) {
	if s.tlsFirst {
		conn = tls.Server(conn, s.tls)
	}
	if s.say(conn, "greeting") == "" {
		return
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		verb, _, _ := strings.Cut(s.hear(lines.Text()), " ")
		answer := s.say(conn, verb)
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
			if s.say(conn, ".") == "" {
				return
			}
		}
	}
}

func (s *scripted) hear(line string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, line)
	return line
}

// say returns what it said, or "" if that was its last word.
func (s *scripted) say(conn net.Conn, step string) string {
	answer := cmp.Or(s.scripted(step), s.usual(conn, step))
	switch answer {
	case late:
		s.reached <- step
		time.Sleep(s.delay)
		answer = s.usual(conn, step)
	case deaf:
		_, _ = fmt.Fprintf(conn, "%s\r\n", s.usual(conn, step))
		<-s.heal
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

// scripted is the answer of the script, if it has one.
func (s *scripted) scripted(step string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[step]++
	return cmp.Or(s.script[fmt.Sprintf("%s %d", step, s.steps[step])], s.script[step])
}

// times is how often a step was reached.
func (s *scripted) times(step string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps[step]
}

func (s *scripted) usual(conn net.Conn, step string) string {
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
func (s *scripted) said(command string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.heard {
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
