package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ready returns nil while messages flow, and else everything that they wait for.
func (p parts) ready(ctx context.Context) error {
	errs := []error{p.consuming.ready(), p.publishing.ready()}
	if err := p.db.Ready(ctx, schema); err != nil {
		errs = append(errs, fmt.Errorf("waiting for the database: %w", err))
	}
	for _, dependency := range p.messages.Waiting() {
		errs = append(errs, fmt.Errorf("waiting for %s: its gate is closed, and messages are held", dependency))
	}
	return errors.Join(errs...)
}

// stage is how far a connection to the broker has come: what it waits for.
type stage struct {
	first string
	waits atomic.Pointer[string]
}

// nothing is what a connection waits for that does its work.
const nothing = ""

func newStage(first string) *stage {
	s := &stage{first: first}
	s.startOver()
	return s
}

func (s *stage) waitFor(what string) { s.waits.Store(&what) }

func (s *stage) startOver() { s.waitFor(s.first) }

func (s *stage) ready() error {
	if what := *s.waits.Load(); what != nothing {
		return errors.New("waiting for " + what)
	}
	return nil
}
