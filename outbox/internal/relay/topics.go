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
	mu       sync.Mutex
	all      map[string]*topic
	answered time.Time // when the destination last answered to an event of any topic
	alone    map[uuid.UUID]loss
}

type topic struct {
	answered time.Time // when the destination last answered to one of its events
	ended    int       // events that have ended publishers since then, one after the other
	last     uuid.UUID // of these
	isPaused bool      // by this relay
}

// loss is that an event was alone when the connection was lost. After causeAfter losses it is the
// cause, and not a bad network, if others were answered meanwhile.
type loss struct {
	times int
	since time.Time
}

const causeAfter = 4

// maxTopics bounds the memory. Then all are forgotten, and pause a little earlier or later.
const maxTopics = 10_000

func newTopics() *topics { return &topics{all: map[string]*topic{}, alone: map[uuid.UUID]loss{}} }

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
	if o == confirmed || o == refused {
		t.answered = time.Now()
		*of = topic{answered: t.answered}
	}
	if (o == closedAlone || o == lostAlone) && of.last != e.ID {
		of.last, of.ended = e.ID, of.ended+1
	}
	if p.ended = of.ended; o == lostAlone {
		p.lost, p.isCause = t.lostAlone(e.ID)
	}
	return p
}

// lostAlone notes that an event was alone when the connection was lost. It returns how often that
// was so before, and whether the event is the cause: also after LeastTries, if no others are
// answered.
func (t *topics) lostAlone(id uuid.UUID) (before int, isCause bool) {
	if len(t.alone) >= maxTopics {
		clear(t.alone)
	}
	l, there := t.alone[id]
	if l.times++; !there {
		l.since = time.Now()
	}
	t.alone[id] = l
	return l.times - 1, l.times >= causeAfter && t.answered.After(l.since) || l.times >= store.LeastTries
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

func (t *topics) lastAnswer(name string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[name] == nil {
		return time.Time{}
	}
	return t.all[name].answered
}

func (t *topics) lastAnswerOfAll() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered
}
