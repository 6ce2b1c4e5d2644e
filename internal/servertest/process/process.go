// Package process starts programs that die with this one, or that outlive it, and
// finds the latter again.
//
// A pid is no identity: the kernel gives it to the next program once it is free. So
// a process is known here by its pid and its start time, and what does not match
// both is never signalled.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Lifetime says what ends a process that nobody stops.
type Lifetime int

const (
	// WithParent lets the kernel kill it when this program ends, however it ends. Only Linux can do that.
	WithParent Lifetime = iota
	// Detached lets it outlive this program, in a session of its own.
	Detached
)

// pollInterval is how often we look for what no portable call waits for: the end of
// another's child, a server's readiness.
const pollInterval = 10 * time.Millisecond

// ID is the identity of one process, now and after this program has ended. Write it down to Find it again.
type ID struct {
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// Process is a program that was started here, or found.
type Process struct {
	ID
	reaped <-chan struct{}  // nil when it was found: then another process is its parent
	state  *os.ProcessState // once it is reaped
}

// State is how a process ended that was started here; Wait for it first.
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

// Alive reports whether the process still runs. A nil Process does not.
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

// Children returns the processes that this one has started and that still run.
func (p *Process) Children() []*Process {
	var children []*Process
	for _, s := range lookUpAll() {
		if s.parent == p.PID && !s.zombie {
			children = append(children, &Process{ID: s.ID})
		}
	}
	return children
}

// Signal sends sig, and does nothing when the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("signal %s to process %d: %w", sig, p.PID, err)
	}
	return nil
}

// Wait returns when the process has ended, or with an error when ctx has.
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

// End sends sig and waits for the end. It does nothing when that has come already.
func (p *Process) End(ctx context.Context, sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := p.Signal(sig); err != nil {
		return err
	}
	return p.Wait(ctx)
}

// AwaitReady asks until probe has no objection, and gives up when the process has
// ended or ctx has.
func (p *Process) AwaitReady(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		objection := probe(ctx)
		if objection == nil {
			return nil
		}
		if !p.Alive() {
			return errors.New("its process has ended")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; last it said: %w", context.Cause(ctx), objection)
		}
	}
}
