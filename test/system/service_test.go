package system

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// service is a running process of one of the two services.
type service struct {
	*testing.T
	name    string
	command *exec.Cmd
	log     string // the file with all that it writes
	ended   chan struct{}
	// mayLackRights is true where the test takes rights away from the service. All other tests
	// prove that the services need no more rights than they have.
	mayLackRights bool
}

// startService runs a command of a service with settings "NAME=value". The process is
// killed when the test ends.
func startService(t *testing.T, name, command string, settings ...string) *service {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), filepath.Base(name))
	must(t, err)
	s := &service{T: t, name: name, log: log.Name(), ended: make(chan struct{})}
	s.command = exec.Command(filepath.Join(binaries, name), command)
	s.command.Env = slices.Concat(settings, []string{
		"APP_ENV=demo", "OPS_ADDR=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0",
	})
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only the test
	s.command.Stdout, s.command.Stderr = log, log
	must(t, s.command.Start())
	must(t, log.Close())
	go func() {
		_ = s.command.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.kill()
		s.wantNoMissingRight()
		if t.Failed() {
			lines := s.logLines("")
			t.Logf("%s logged at last: %v", name, lines[max(0, len(lines)-40):])
		}
	})
	return s
}

// stop ends the service by SIGTERM, and wants a clean end.
func (s *service) stop() {
	s.Helper()
	_ = s.command.Process.Signal(syscall.SIGTERM)
	s.wait()
	if code := s.command.ProcessState.ExitCode(); code != 0 {
		s.Errorf("%s ended with %d, want 0", s.name, code)
	}
}

// kill ends the service by SIGKILL.
func (s *service) kill() {
	s.Helper()
	_ = s.command.Process.Kill()
	s.wait()
}

func (s *service) wait() {
	s.Helper()
	select {
	case <-s.ended:
	case <-time.After(awaitTimeout):
		s.Fatalf("%s does not end", s.name)
	}
}

// logLine is one line of a service's log.
type logLine map[string]any

// logLines returns all lines so far with this message, or all lines if it is "".
func (s *service) logLines(message string) (found []logLine) {
	s.Helper()
	file, err := os.Open(s.log)
	must(s.T, err)
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var l logLine
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			l = logLine{"msg": lines.Text()}
		}
		if message == "" || l["msg"] == message {
			found = append(found, l)
		}
	}
	return found
}

// awaitLog waits for a line with this message, and returns the first one.
func (s *service) awaitLog(message string) logLine {
	s.Helper()
	var found []logLine
	if !eventually(func() bool { found = s.logLines(message); return len(found) > 0 }) {
		s.Fatalf("%s never logged %q", s.name, message)
	}
	return found[0]
}

// address waits for the API and returns its URL.
func (s *service) address() string {
	s.Helper()
	return fmt.Sprintf("http://%s", s.awaitLog("taking orders")["address"])
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
