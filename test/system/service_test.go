package system

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/services"
)

// service is a running process of one of the two services.
type service struct {
	*testing.T
	*services.Process
	name string
	// mayLackRights is true where the test takes rights away from the service. All other tests
	// prove that the services need no more rights than they have.
	mayLackRights bool
}

// startService runs a command of a service with settings "NAME=value". The process is
// killed when the test ends.
func startService(t *testing.T, name, command string, settings ...string) *service {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	running, err := services.Start(filepath.Join(binaries, name), command, log, settings...)
	must(t, err)
	s := &service{T: t, Process: running, name: name}
	t.Cleanup(func() {
		must(t, s.Kill(context.Background()))
		s.wantNoMissingRight()
		if t.Failed() {
			t.Logf("%s logged at last:\n%s", name, process.LastLines(log))
		}
	})
	return s
}

// stop ends the service by SIGTERM, and wants a clean end.
func (s *service) stop() {
	s.Helper()
	code, err := s.Stop(s.Context())
	must(s.T, err)
	if code != 0 {
		s.Errorf("%s ended with %d, want 0", s.name, code)
	}
}

// kill ends the service by SIGKILL.
func (s *service) kill() {
	s.Helper()
	must(s.T, s.Kill(s.Context()))
}

// logLines returns all lines so far with this message, or all lines if it is "".
func (s *service) logLines(message string) (found []services.Line) {
	s.Helper()
	lines, err := s.Lines()
	must(s.T, err)
	for _, l := range lines {
		if message == "" || l.Message() == message {
			found = append(found, l)
		}
	}
	return found
}

// awaitLog waits for a line with this message, and returns the first one.
func (s *service) awaitLog(message string) services.Line {
	s.Helper()
	line, err := s.Await(s.Context(), message)
	must(s.T, err)
	return line
}

// address waits for the API and returns its URL.
func (s *service) address() string {
	s.Helper()
	return "http://" + s.awaitLog(services.TakingOrders).Text("address")
}

// wantNoMissingRight wants no error of PostgreSQL or RabbitMQ about a missing right in the
// log. The services only log some of these errors, and try again.
func (s *service) wantNoMissingRight() {
	s.Helper()
	for _, l := range s.logLines("") {
		text := fmt.Sprint(l)
		if !s.mayLackRights && (strings.Contains(text, "SQLSTATE 42501") || strings.Contains(text, "ACCESS_REFUSED")) {
			s.Errorf("%s lacks a right that it needs: %s", s.name, text)
			return
		}
	}
}
