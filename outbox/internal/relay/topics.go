package relay

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// topics is what the workers of a relay remember of topics. The pauses themselves are in the
// outbox.
type topics struct {
	mu    sync.Mutex
	all   map[string]*topicState
	taken time.Time // when the destination last took an event of any topic
	alone map[uuid.UUID]loss
}

type topicState struct {
	taken   time.Time // when the destination last took one of its events
	refused uuid.UUID // the last event that was refused since then
	times   int       // how many were refused since then
	paused  bool      // by this relay
}

// A topic pauses after so many events that were refused, one after the other. An event that made
// the server close the publisher was alone, and the next one may be good. To try it costs
// milliseconds.
const (
	refusedBeforePause = 2
	closedBeforePause  = 50
)

// loss is that an event was alone when the connection was lost. After causeAfter losses it is the
// cause, and not a bad network, if others were taken meanwhile.
type loss struct {
	times int
	since time.Time
}

const causeAfter = 4

// maxTopics bounds the memory. Then all are forgotten, and pause a little earlier or later.
const maxTopics = 10_000

func newTopics() *topics { return &topics{all: map[string]*topicState{}, alone: map[uuid.UUID]loss{}} }

func (t *topics) get(name string) *topicState {
	if t.all[name] == nil {
		if len(t.all) >= maxTopics {
			clear(t.all)
		}
		t.all[name] = &topicState{}
	}
	return t.all[name]
}

// take notes that the destination has taken an event. It reports whether a pause of the topic ends.
func (t *topics) take(name string, trial bool) (resume bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	topic := t.get(name)
	resume = topic.paused || trial
	t.taken = time.Now()
	*topic = topicState{taken: t.taken}
	return resume
}

// refuse notes that the destination has refused an event, or has closed a publisher because of it.
// It reports whether the topic pauses.
func (t *topics) refuse(e store.Event, closed bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	topic, limit := t.get(e.PauseName()), refusedBeforePause
	if closed {
		limit = closedBeforePause
	}
	if topic.refused != e.ID {
		topic.refused, topic.times = e.ID, topic.times+1
	}
	return topic.times >= limit
}

// lostAlone notes that an event was alone when the connection was lost. It returns how often that
// was so before, and whether the event is the cause: also after LeastTries, if no others are taken.
func (t *topics) lostAlone(id uuid.UUID) (before int, isCause bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.alone) >= maxTopics {
		clear(t.alone)
	}
	l, there := t.alone[id]
	if l.times++; !there {
		l.since = time.Now()
	}
	t.alone[id] = l
	return l.times - 1, l.times >= causeAfter && t.taken.After(l.since) || l.times >= store.LeastTries
}

func (t *topics) pause(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.get(name).paused = true
}

// claimed notes that a claim has found these events, so their topics are not paused in the outbox.
func (t *topics) claimed(events []store.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		if topic := t.all[e.PauseName()]; topic != nil {
			topic.paused = false
		}
	}
}

func (t *topics) isPaused(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[name] != nil && t.all[name].paused
}

func (t *topics) lastTaken(name string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[name] == nil {
		return time.Time{}
	}
	return t.all[name].taken
}

func (t *topics) lastTakenOfAll() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}
