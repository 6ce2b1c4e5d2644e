// Package stage says what a connection waits for, in words that operators read.
package stage

import (
	"errors"
	"sync/atomic"
)

// Stage is what a connection to the broker waits for.
type Stage struct {
	first      string
	waitingFor atomic.Pointer[string]
}

// Nothing is the stage of a connection that is in use.
const Nothing = ""

// New returns a stage that waits for first.
func New(first string) *Stage {
	s := &Stage{first: first}
	s.Reset()
	return s
}

// WaitFor sets what the connection waits for.
func (s *Stage) WaitFor(what string) { s.waitingFor.Store(&what) }

// Reset sets what a new connection waits for.
func (s *Stage) Reset() { s.WaitFor(s.first) }

// WaitsFor returns what the connection waits for, or [Nothing].
func (s *Stage) WaitsFor() string { return *s.waitingFor.Load() }

// Ready returns an error that says what the connection waits for, or nil.
func (s *Stage) Ready() error {
	if what := s.WaitsFor(); what != Nothing {
		return errors.New("waiting for " + what)
	}
	return nil
}
