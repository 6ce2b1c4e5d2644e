package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// shutdownLimit is for a service that never ends. How long the relay takes at most is tested in
// virtual time: TestP12ADatabaseThatHangsDelaysTheEndALittle.
const shutdownLimit = time.Minute

// connections is the default of MAIL_CONNECTIONS.
const connections = 8

// service is a running process of one of the two services.
type service struct {
	*testing.T
	name    string
	command *exec.Cmd
	ended   chan struct{}
	// mayLackRights is true where the test takes rights away from the service. All other tests
	// prove that the services need no more rights than they have.
	mayLackRights bool

	mu         sync.Mutex
	logChanged *sync.Cond
	log        []logLine
	logEnded   bool
}

// startService runs a command of a service with settings "NAME=value". The process is
// killed when the test ends.
func startService(t *testing.T, name, command string, settings ...string) *service {
	t.Helper()
	s := &service{T: t, name: name, ended: make(chan struct{})}
	s.logChanged = sync.NewCond(&s.mu)
	s.command = exec.Command(filepath.Join(binaries, name), command)
	s.command.Env = slices.Concat(settings, []string{
		"APP_ENV=demo", "OPS_ADDR=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0",
	})
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only the test
	output, err := s.command.StdoutPipe()
	must(t, err)
	stderr, err := os.CreateTemp(t.TempDir(), filepath.Base(name))
	must(t, err)
	s.command.Stderr = stderr
	must(t, s.command.Start())
	go s.readLog(output)
	t.Cleanup(func() {
		s.signal(syscall.SIGKILL)
		<-s.ended
		s.wantNoMissingRight()
		if t.Failed() {
			t.Logf("%s: stderr %q, log:\n%s", name, s.stderr(), s.lastLogLines(40))
		}
		_ = stderr.Close()
	})
	return s
}

// stderr returns what an ended process wrote to stderr.
func (s *service) stderr() string {
	text, err := os.ReadFile(s.command.Stderr.(*os.File).Name())
	if err != nil {
		s.Error(err)
	}
	return string(text)
}

func (s *service) signal(signal syscall.Signal) {
	select {
	case <-s.ended:
	default:
		_ = s.command.Process.Signal(signal)
	}
}

// stop ends the service by SIGTERM, and wants a clean end in time.
func (s *service) stop() {
	s.Helper()
	s.signal(syscall.SIGTERM)
	s.waitAtMost(shutdownLimit)
	if code := s.command.ProcessState.ExitCode(); code != 0 {
		s.Errorf("%s ended with %d, want 0", s.name, code)
	}
}

// kill ends the service by SIGKILL.
func (s *service) kill() {
	s.Helper()
	s.signal(syscall.SIGKILL)
	s.wait()
}

func (s *service) wait() {
	s.Helper()
	s.waitAtMost(awaitTimeout)
}

func (s *service) waitAtMost(limit time.Duration) {
	s.Helper()
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.Fatalf("%s does not end within %s", s.name, limit)
	}
}
