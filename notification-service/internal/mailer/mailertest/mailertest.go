// Package mailertest has a mail server for tests. It accepts every e-mail and keeps it, unless a
// test says otherwise.
package mailertest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Server is a real SMTP server that keeps the e-mails.
type Server struct {
	TLS *tls.Config // for STARTTLS
	// OnRcpt and OnDot may refuse, delay or hold up an e-mail. They may be nil.
	OnRcpt, OnDot func(to string) error
	Connections   atomic.Int32 // so far
	Logins        atomic.Int32

	mu     sync.Mutex
	emails []Email
}

// Start returns the server's host and port.
func (s *Server) Start(tb testing.TB) string {
	tb.Helper()
	listener := Listen(tb)
	tb.Cleanup(s.Serve(listener))
	return listener.Addr().String()
}

// Serve serves until the test calls stop.
func (s *Server) Serve(listener net.Listener) (stop func()) {
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		s.Connections.Add(1)
		return &session{server: s}, nil
	}))
	server.Domain, server.TLSConfig, server.ErrorLog = "localhost", s.TLS, log.New(io.Discard, "", 0)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	return func() {
		_ = server.Close()
		_ = listener.Close() // of a server that has not begun to serve
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

// Received returns the e-mails that have arrived.
func (s *Server) Received() []Email {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emails
}

var _ smtp.AuthSession = (*session)(nil)

type session struct {
	server *Server
	to     []string
}

func (s *session) Mail(string, *smtp.MailOptions) error {
	s.to = nil
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return call(s.server.OnRcpt, to)
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if err := call(s.server.OnDot, s.to[0]); err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.emails = append(s.server.emails, Email{To: s.to, Header: message.Header, Raw: string(raw)})
	return nil
}

func call(answer func(to string) error, to string) error {
	if answer == nil {
		return nil
	}
	return answer(to)
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// AuthMechanisms and Auth accept every login over TLS.
func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, _, _ string) error { s.server.Logins.Add(1); return nil }), nil
}

// Email is an e-mail as it arrived.
type Email struct {
	To     []string // of the envelope
	Header mail.Header
	Raw    string
}

// HeaderNames returns the names of the header's fields, sorted.
func (e Email) HeaderNames() []string { return slices.Sorted(maps.Keys(e.Header)) }

// Boundary returns what separates the parts.
func (e Email) Boundary(tb testing.TB) string {
	tb.Helper()
	kind, parameters, err := mime.ParseMediaType(e.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		tb.Fatalf("Content-Type %q, error %v", kind, err)
	}
	return parameters["boundary"]
}

// Bodies reads both parts, as a mail program does.
func (e Email) Bodies(tb testing.TB) (text, html string) {
	tb.Helper()
	message, err := mail.ReadMessage(strings.NewReader(e.Raw))
	if err != nil {
		tb.Fatal(err)
	}
	parts := multipart.NewReader(message.Body, e.Boundary(tb))
	var found []string
	for _, want := range []string{"text/plain; charset=UTF-8", "text/html; charset=UTF-8"} {
		part, err := parts.NextPart()
		if err != nil {
			tb.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if is := part.Header.Get("Content-Type"); err != nil || is != want {
			tb.Errorf("part %q, want %q; error %v", is, want, err)
		}
		found = append(found, strings.ReplaceAll(string(body), "\r\n", "\n"))
	}
	if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
		tb.Errorf("there is a third part, or trouble: %v", err)
	}
	return found[0], found[1]
}
