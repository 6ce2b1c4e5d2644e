package outbox_test

import (
	"testing"

	"github.com/google/uuid"
)

// transitions counts how often events went from one status to another.
type transitions map[string]int

// allowedTransitions are all that may happen. The value is true if the model, with a hundred runs
// of a few dozen steps, must have taken the transition.
var allowedTransitions = map[string]bool{
	"pending → in_progress":   true,
	"in_progress → published": true,
	"in_progress → pending":   true,
	"in_progress → failed":    true,
	"failed → pending":        true,
	"failed → discarded":      true,
	"published → gone":        true,
	"discarded → gone":        true,
	// The lease has ended, and no other relay has claimed the event: the holder may still fail it.
	"pending → failed": false,
	// A confirm is a fact, whatever has happened to the event meanwhile. Random steps seldom
	// take these transitions, and other tests prove them.
	"pending → published":   false,
	"failed → published":    false,
	"discarded → published": false,
}

// check checks that only allowed transitions were taken, and all those that must be.
func (taken transitions) check(t *testing.T) {
	t.Helper()
	t.Logf("transitions: %v", taken)
	for transition := range taken {
		if _, there := allowedTransitions[transition]; !there {
			t.Errorf("no event may go %s", transition)
		}
	}
	for transition, must := range allowedTransitions {
		if must && taken[transition] == 0 {
			t.Errorf("no event went %s", transition)
		}
	}
}

// statusHistory has the last status of each event, and counts the transitions.
type statusHistory struct {
	last  map[uuid.UUID]string
	taken transitions
}

// record compares all events with their last status.
func (h *statusHistory) record(f fixture) {
	f.Helper()
	var events []struct {
		ID     uuid.UUID
		Status string
	}
	f.read(&events, "SELECT id, status FROM outbox_status")
	now := map[uuid.UUID]string{}
	for _, e := range events {
		now[e.ID] = e.Status
	}
	for id, was := range h.last {
		is, there := now[id]
		if !there {
			is = "gone"
		}
		if was != is {
			h.taken[was+" → "+is]++
		}
	}
	h.last = now
}
