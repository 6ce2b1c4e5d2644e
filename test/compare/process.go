package main

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/env/services"
)

// program is one process of a row. After its end, a new process takes its place.
type program struct {
	path, argument string
	settings       []string
	ready          string // the log message of a ready process
	log            string

	mu      sync.Mutex
	process *services.Process
	starts  int
	address string
	held    bool // it must not be started again, or be used by the load
}

// start starts the process unless it runs, and waits until it is ready.
func (p *program) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	return p.startLocked(ctx)
}

func (p *program) startLocked(ctx context.Context) (err error) {
	if p.process.Alive() {
		return nil
	}
	p.starts++
	p.address = ""
	log := fmt.Sprintf("%s-%d.log", p.log, p.starts)
	if p.process, err = services.Start(p.path, p.argument, log, p.settings...); err != nil {
		return err
	}
	p.address, err = p.process.Address(ctx, p.ready)
	return err
}

// keepAlive starts the process again if it has ended by itself. An error means that it ends again.
func (p *program) keepAlive(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held {
		_ = p.startLocked(ctx)
	}
}

// url returns the URL of the API, "" if the process does not run.
func (p *program) url() string {
	if !p.mu.TryLock() {
		return "" // it is starting
	}
	defer p.mu.Unlock()
	if p.held || !p.process.Alive() {
		return ""
	}
	return p.address
}

// end ends the process with a signal. It stays down until start.
func (p *program) end(ctx context.Context, sig syscall.Signal, patience time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	if !p.process.Alive() {
		return nil
	}
	ending, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.process.End(ending, sig); err != nil {
		return p.process.End(ctx, syscall.SIGKILL)
	}
	return nil
}

// hold takes the process out of the load, and signals it.
func (p *program) hold(held bool, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	return p.process.Signal(sig)
}
