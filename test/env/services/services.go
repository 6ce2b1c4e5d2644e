// Package services builds the services, runs them as processes, and reads their logs and metrics.
package services

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/env/process"
)

// The names of the services, of their programs, and of their users at the broker.
const (
	Orders        = "order-service"
	Notifications = "notification-service"
)

// limit bounds each wait for a process, so that a failure ends. No promise depends on it.
const limit = 2 * time.Minute

// Build builds both services into a folder. Flags of go build may follow.
func Build(ctx context.Context, repository, folder string, flags ...string) error {
	arguments := slices.Concat([]string{"build"}, flags, []string{"-o", folder + "/", "./" + Orders, "./" + Notifications})
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = repository
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the services: %w\n%s", err, output)
	}
	return nil
}

// Process is one process of a service.
type Process struct {
	*process.Process
	name string // for messages
	log  string // the file with its output

	mu    sync.Mutex
	read  int64 // of the file
	lines []Line
}

// Start starts a command of a service, or of a program with the same settings, and appends its
// output to a log. The settings "NAME=value" are
// added to those of the demo and to free ports. If one is given twice, the last one counts.
func Start(program, command, log string, settings ...string) (*Process, error) {
	c := exec.Command(program, command)
	c.Env = append([]string{"APP_ENV=demo", "OPS_ADDR=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0", "GORACE=halt_on_error=1"}, settings...)
	p, err := process.Start(c, process.WithParent, log)
	return &Process{Process: p, name: filepath.Base(program), log: log}, err
}

// Migrate runs the command migrate of a service as the owner of its database.
func Migrate(ctx context.Context, program, log, owner string) error {
	s, err := Start(program, "migrate", log, "DATABASE_URL="+owner)
	if err == nil {
		err = s.Wait(ctx)
	}
	if err == nil && !s.State().Success() {
		err = fmt.Errorf("%s migrate: %s:\n%s", s.name, s.State(), process.LastLines(log))
	}
	return err
}

// Alive reports whether the process runs. One that was never started, nil, does not run.
func (s *Process) Alive() bool { return s != nil && s.Process.Alive() }

// Kill ends the process with SIGKILL, unless it has ended.
func (s *Process) Kill(ctx context.Context) error { return s.endWith(ctx, syscall.SIGKILL) }

// Stop ends the process with SIGTERM, and returns its exit status.
func (s *Process) Stop(ctx context.Context) (status int, err error) {
	if err := s.endWith(ctx, syscall.SIGTERM); err != nil {
		return 0, errors.Join(err, s.Kill(ctx))
	}
	return s.State().ExitCode(), nil
}

func (s *Process) endWith(ctx context.Context, sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.End(ctx, sig); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// WasKilled reports whether SIGKILL has ended the process. A crash point sends it to itself.
func (s *Process) WasKilled() bool {
	status, ok := s.State().Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
