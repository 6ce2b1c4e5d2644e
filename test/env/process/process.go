// Package process starts programs that die with this program, or that outlive it and can be
// found again.
//
// A pid does not identify a process: the kernel uses it again for another one. So this package
// identifies a process by its pid and its start time, and signals it only if both match.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Lifetime decides whether a process outlives this program.
type Lifetime int

const (
	// WithParent lets the kernel kill the process when this program ends in any way. Only Linux
	// can do that.
	WithParent Lifetime = iota
	// Detached lets the process outlive this program, in its own session.
	Detached
)

// pollInterval is the interval of checks for which there is no portable system call: whether
// another process's child has ended, and whether a server is ready.
const pollInterval = 10 * time.Millisecond

// ID identifies one process, also after this program has ended. Save it to Find the process
// again.
type ID struct {
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// Process is a process that was started by Start or found by Find.
type Process struct {
	ID
	reaped <-chan struct{}  // nil if it was found: another process is its parent
	state  *os.ProcessState // set before reaped is closed
}

// State returns how a process ended that was started by Start. It waits for the end.
func (p *Process) State() *os.ProcessState {
	<-p.reaped
	return p.state
}

// Find returns the process with this identity, or nil if it has ended.
func Find(id ID) *Process {
	p := &Process{ID: id}
	if !p.Alive() {
		return nil
	}
	return p
}

// Alive reports whether the process still runs. A nil Process does not run.
func (p *Process) Alive() bool {
	if p == nil || p.ID == (ID{}) {
		return false
	}
	select {
	case <-p.reaped:
		return false
	default:
	}
	now := lookUp(p.PID)
	return now.ID == p.ID && !now.zombie
}

// Children returns the running processes that this one has started.
func (p *Process) Children() []*Process {
	var children []*Process
	for _, s := range lookUpAll() {
		if s.parent == p.PID && !s.zombie {
			children = append(children, &Process{ID: s.ID})
		}
	}
	return children
}

// Signal sends sig, unless the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("signal %s to process %d: %w", sig, p.PID, err)
	}
	return nil
}

// Wait waits until the process has ended, or returns an error when ctx is done.
func (p *Process) Wait(ctx context.Context) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for p.reaped != nil || p.Alive() {
		select {
		case <-p.reaped:
			return nil
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d has not ended: %w", p.PID, context.Cause(ctx))
		}
	}
	return nil
}

// End sends sig and waits for the end, unless the process has ended already.
func (p *Process) End(ctx context.Context, sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := p.Signal(sig); err != nil {
		return err
	}
	return p.Wait(ctx)
}

// AwaitReady repeats probe until it returns nil. It returns an error when the process has ended
// or ctx is done.
func (p *Process) AwaitReady(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		notReady := probe(ctx)
		if notReady == nil {
			return nil
		}
		if !p.Alive() {
			return errors.New("its process has ended")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; the last probe: %w", context.Cause(ctx), notReady)
		}
	}
}

// status is what the operating system reports about a process.
type status struct {
	ID
	parent int
	zombie bool // it has ended, but its parent has not reaped it: in a container, pid 1 may never
}

// Start starts cmd with a lifetime, and appends its output to the file log.
func Start(cmd *exec.Cmd, lifetime Lifetime, log string) (*Process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	defer func() { _ = output.Close() }() // the program has its own descriptor
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = attributes(cmd.SysProcAttr, lifetime)
	return fork(cmd)
}

// attributes starts a process outside our process group.
func attributes(attr *syscall.SysProcAttr, lifetime Lifetime) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	if lifetime == Detached {
		attr.Setsid = true
		return attr
	}
	// Ctrl-C then reaches only the test, which stops its servers in an orderly way.
	attr.Setpgid = true
	dieWithParent(attr)
	return attr
}

func fork(cmd *exec.Cmd) (*Process, error) {
	reaped, started := make(chan struct{}), make(chan error)
	p := &Process{reaped: reaped}
	go func() {
		// Linux kills a WithParent child when the thread that forked it ends. So this goroutine
		// keeps its thread while it waits for the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			// Before Wait, the pid belongs to this process, even if it has already ended.
			p.ID = lookUp(cmd.Process.Pid).ID
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log and the state show how it ended
			p.state = cmd.ProcessState
			close(reaped)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// LastLines returns the last lines of a log, for the report of a failure.
func LastLines(log string) string {
	const shown = 30
	content, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}
