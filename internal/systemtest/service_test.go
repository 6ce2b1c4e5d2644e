package systemtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for an event. It bounds a failure; no promise
// rests on it.
const patience = 2 * time.Minute

// drainTime is what P12 gives a service to end in.
const drainTime = 25 * time.Second

// service is a running process of one of the two services.
type service struct {
	*testing.T
	name    string
	command *exec.Cmd
	ended   chan struct{}
	// mayBeRefused says that the test takes rights away from it. All others prove that the
	// services need no more than they have.
	mayBeRefused bool

	mu      sync.Mutex
	more    *sync.Cond
	records []record
	done    bool
}

// record is one line of the service's log.
type record map[string]any

// run starts a command of a service with settings "NAME=value"; it is killed when
// the test ends.
func run(t *testing.T, name, command string, settings ...string) *service {
	t.Helper()
	s := &service{T: t, name: name, ended: make(chan struct{})}
	s.more = sync.NewCond(&s.mu)
	s.command = exec.Command(filepath.Join(binaries, name), command)
	s.command.Env = slices.Concat(settings, []string{
		"APP_ENV=demo", "OPS_ADDR=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0", "GORACE=halt_on_error=1",
	})
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the test
	output, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errors, err := os.CreateTemp(t.TempDir(), filepath.Base(name))
	if err != nil {
		t.Fatal(err)
	}
	s.command.Stderr = errors
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go s.read(output)
	t.Cleanup(func() {
		s.signal(syscall.SIGKILL)
		<-s.ended
		s.wantNoRefusal()
		if t.Failed() {
			said, _ := os.ReadFile(errors.Name())
			t.Logf("%s: stderr %q, log:\n%s", name, said, s.tail(40))
		}
		_ = errors.Close()
	})
	return s
}

// read collects the log, and then the exit.
func (s *service) read(output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			r = record{"msg": lines.Text()}
		}
		s.mu.Lock()
		s.records = append(s.records, r)
		s.mu.Unlock()
		s.more.Broadcast()
	}
	_ = s.command.Wait()
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.more.Broadcast()
	close(s.ended)
}

// await returns the first line of the log with this message.
func (s *service) await(message string) record {
	s.Helper()
	return s.awaitAfter(0, message)
}

// awaitAfter returns the first line with this message that is not among the first
// so many.
func (s *service) awaitAfter(lines int, message string) record {
	s.Helper()
	impatience := time.AfterFunc(patience, s.more.Broadcast)
	defer impatience.Stop()
	deadline := time.Now().Add(patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for read := lines; ; {
		for ; read < len(s.records); read++ {
			if s.records[read]["msg"] == message {
				return s.records[read]
			}
		}
		if s.done || time.Now().After(deadline) {
			s.Fatalf("%s never logged %q", s.name, message)
		}
		s.more.Wait()
	}
}

// lines returns how many there are by now.
func (s *service) lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

// all returns the lines with this message so far.
func (s *service) all(message string) (found []record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if r["msg"] == message {
			found = append(found, r)
		}
	}
	return found
}

// wantNoRefusal looks for what PostgreSQL and RabbitMQ say to those who lack a right. Some
// of it is work that is only logged and tried again.
func (s *service) wantNoRefusal() {
	if s.mayBeRefused {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if text := fmt.Sprint(r); strings.Contains(text, "SQLSTATE 42501") || strings.Contains(text, "ACCESS_REFUSED") {
			s.Errorf("%s may not do what it needs: %s", s.name, text)
			return
		}
	}
}

func (s *service) tail(lines int) (text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records[max(0, len(s.records)-lines):] {
		line, _ := json.Marshal(r)
		text += string(line) + "\n"
	}
	return text
}

func (s *service) signal(signal syscall.Signal) {
	select {
	case <-s.ended:
	default:
		_ = s.command.Process.Signal(signal)
	}
}

// stop asks the service to end, waits for it, and wants it to end well.
func (s *service) stop() {
	s.Helper()
	s.signal(syscall.SIGTERM)
	s.waitAtMost(drainTime)
	if code := s.command.ProcessState.ExitCode(); code != 0 {
		s.Errorf("%s ended with %d, want 0", s.name, code)
	}
}

// kill ends the service at once.
func (s *service) kill() {
	s.Helper()
	s.signal(syscall.SIGKILL)
	s.wait()
}

func (s *service) wait() {
	s.Helper()
	s.waitAtMost(patience)
}

func (s *service) waitAtMost(limit time.Duration) {
	s.Helper()
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.Fatalf("%s does not end within %s", s.name, limit)
	}
}
