package outbox

import (
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// topics is what the workers of a relay remember of topics. The pauses themselves are in the outbox.
type topics struct {
	mu    sync.Mutex
	all   map[string]*topic
	taken time.Time // when the destination last took an event
}

type topic struct {
	taken   time.Time // when the destination last took one of its events
	refused uuid.UUID // the last event that was refused since then
	times   int       // how many were refused since then
	paused  bool      // by this relay
}

// A topic pauses after so many events that were refused, one after the other. An event that made the
// server close the publisher was alone, and the next one may be good. To try it costs milliseconds.
const (
	refusedBeforePause = 2
	closedBeforePause  = 50
)

// maxTopics bounds the memory. A topic that is forgotten only pauses a little earlier.
const maxTopics = 10_000

func newTopics() *topics { return &topics{all: map[string]*topic{}, taken: time.Now()} }

func (t *topics) of(name string) *topic {
	if t.all[name] == nil {
		if len(t.all) >= maxTopics {
			maps.DeleteFunc(t.all, func(_ string, one *topic) bool { return !one.paused })
		}
		t.all[name] = &topic{}
	}
	return t.all[name]
}

// take notes that the destination has taken an event. It reports whether a pause of the topic ends,
// and whether the destination had taken nothing for a while.
func (t *topics) take(name string, probe bool) (resume, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, one := time.Now(), t.of(name)
	resume, again = one.paused || probe, now.Sub(t.taken) > quietTime
	*one, t.taken = topic{taken: now}, now
	return resume, again
}

// refuse notes that the destination has refused an event, or has closed a publisher because of it. It
// reports whether the topic pauses.
func (t *topics) refuse(e store.Event, closed bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, most := t.of(e.Topic), refusedBeforePause
	if closed {
		most = closedBeforePause
	}
	if one.refused != e.ID {
		one.refused, one.times = e.ID, one.times+1
	}
	return one.times >= most
}

func (t *topics) pause(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(name).paused = true
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
