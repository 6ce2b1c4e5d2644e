package store

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

// transitions counts how often events went from one status to another.
type transitions map[string]int

// allowedTransitions are all that may happen. The value is true if the model must have taken the
// transition, in a hundred runs of a few dozen steps with the first seed. Others miss a rare one.
var allowedTransitions = map[string]bool{
	"pending → in_progress":   true,
	"in_progress → published": true,
	"in_progress → pending":   true,
	"in_progress → failed":    true,
	"pending → superseded":    true,
	"failed → superseded":     true,
	"failed → pending":        true,
	"failed → discarded":      true,
	"published → gone":        true,
	// These are seldom old enough.
	"discarded → gone unsent":  false,
	"superseded → gone unsent": false,
	// The lease has ended, and no other relay has claimed the event: the holder may still fail it.
	"pending → failed": false,
	// A confirm is a fact, whatever has happened to the event meanwhile. Random steps seldom
	// take these transitions, and other tests prove them.
	"pending → published":    false,
	"failed → published":     false,
	"discarded → published":  false,
	"superseded → published": false,
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
		if must && taken[transition] == 0 && seed() == firstSeed {
			t.Errorf("no event went %s", transition)
		}
	}
}

// record compares all events with their last status.
func (m *model) record() {
	m.Helper()
	now := map[uuid.UUID]string{}
	found, err := m.pool.Query(m.Context(), "SELECT id, status FROM outbox_status WHERE payload IS NOT NULL")
	must(m, err)
	for found.Next() {
		var id uuid.UUID
		var status string
		must(m, found.Scan(&id, &status))
		now[id] = status
	}
	must(m, found.Err())
	for id, was := range m.last {
		if _, there := now[id]; !there {
			now[id] = "gone"
			if was == "discarded" || was == "superseded" || was == "gone unsent" {
				now[id] = "gone unsent"
			}
		}
		if is := now[id]; was != is {
			m.taken[was+" → "+is]++
		}
	}
	m.last = now
}

// broker records which versions of each aggregate it has received first.
type broker struct {
	seen  map[uuid.UUID]bool
	first map[string][]int
}

func newBroker() *broker { return &broker{seen: map[uuid.UUID]bool{}, first: map[string][]int{}} }

func (b *broker) publish(e Event) {
	if !b.seen[e.ID] {
		b.seen[e.ID] = true
		b.first[e.AggregateID] = append(b.first[e.AggregateID], e.Version)
	}
}

// outOfOrder returns an aggregate whose versions did not come in their order.
func (b *broker) outOfOrder() string {
	for aggregate, versions := range b.first {
		if !slices.IsSorted(versions) {
			return aggregate
		}
	}
	return ""
}
