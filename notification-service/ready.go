package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ready returns nil while messages flow, and otherwise everything that they wait for.
func (p parts) ready(ctx context.Context) error {
	errs := []error{p.consuming.ready(), p.publishing.ready()}
	if err := p.db.Ready(ctx, schema); err != nil {
		errs = append(errs, fmt.Errorf("waiting for the database: %w", err))
	}
	for _, dependency := range p.messages.Unavailable() {
		errs = append(errs, fmt.Errorf("waiting for %s: its gate is closed, and messages are held", dependency))
	}
	return errors.Join(errs...)
}

// stage is what a connection to the broker waits for.
type stage struct {
	first      string
	waitingFor atomic.Pointer[string]
}

// nothing is the stage of a connection that is in use.
const nothing = ""

func newStage(first string) *stage {
	s := &stage{first: first}
	s.reset()
	return s
}

func (s *stage) waitFor(what string) { s.waitingFor.Store(&what) }

func (s *stage) reset() { s.waitFor(s.first) }

func (s *stage) ready() error {
	if what := *s.waitingFor.Load(); what != nothing {
		return errors.New("waiting for " + what)
	}
	return nil
}
