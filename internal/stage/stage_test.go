package stage_test

import (
	"testing"

	"example.com/transactional-outbox/internal/stage"
)

func TestAStageSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	s := stage.New("a session")
	if err := s.Ready(); err == nil || err.Error() != "waiting for a session" {
		t.Errorf("a new stage: %v", err)
	}
	s.WaitFor("the exchange")
	if got := s.WaitsFor(); got != "the exchange" {
		t.Errorf("it waits for %q", got)
	}
	s.WaitFor(stage.Nothing)
	if err := s.Ready(); err != nil {
		t.Errorf("in use: %v", err)
	}
	s.Reset()
	if got := s.WaitsFor(); got != "a session" {
		t.Errorf("after the end of the session it waits for %q", got)
	}
}
