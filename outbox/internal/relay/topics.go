package relay

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// topics is what the workers of a relay remember of topics, and of events that were alone when the
// connection was lost. The pauses themselves are in the outbox.
type topics struct {
	mu    sync.Mutex
	all   map[string]*topic
	alone map[uuid.UUID]int // how often
}

type topic struct {
	taken    time.Time // when the destination last took one of its events
	failures int       // events that were refused, or have ended publishers, since then
	last     uuid.UUID // of these
	isPaused bool      // by this relay
}

// causeAfter is how often an event must be alone when the connection is lost, until that counts.
// Less often, an unreliable network may be the cause.
const causeAfter = store.LeastTries

// maxTopics bounds the memory. At the limit everything is forgotten, which costs a few attempts.
const maxTopics = 10_000

func newTopics() *topics { return &topics{all: map[string]*topic{}, alone: map[uuid.UUID]int{}} }

func (t *topics) get(name string) *topic {
	if t.all[name] == nil {
		if len(t.all) >= maxTopics {
			clear(t.all)
		}
		t.all[name] = &topic{}
	}
	return t.all[name]
}

// note notes an outcome, and returns the past of the event.
func (t *topics) note(e store.Event, o outcome, isProbe bool) past {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.get(e.PauseName())
	p := past{isProbe: isProbe, isPaused: of.isPaused}
	if o == confirmed {
		*of = topic{taken: time.Now()}
	}
	if (o == refused || o == closedAlone || o == lostAlone) && of.last != e.ID {
		of.last, of.failures = e.ID, of.failures+1
	}
	if p.failures = of.failures; o == lostAlone {
		if len(t.alone) >= maxTopics {
			clear(t.alone)
		}
		p.lost = t.alone[e.ID]
		t.alone[e.ID]++
	}
	return p
}

func (t *topics) pause(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.get(name).isPaused = true
}

func (t *topics) isPaused(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[name] != nil && t.all[name].isPaused
}

func (t *topics) lastTaken(name string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[name] == nil {
		return time.Time{}
	}
	return t.all[name].taken
}
