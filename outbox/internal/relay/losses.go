package relay

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// losses are the events that were in flight when a publisher ended, and may be the cause. A message
// can make RabbitMQ close a channel, and a bad one can end a connection. An event is sent apart
// from the others if the destination has closed a publisher that it was sent with, or if the
// connection was lost twice in a row with it.
type losses struct {
	mu     sync.Mutex
	events map[uuid.UUID]loss
}

type loss struct {
	times int // in a row
	since time.Time
}

const (
	apartAfter = 2
	// An event that is alone when the connection is lost is the cause only if that happens again, and
	// the destination takes others meanwhile. Somebody may cut connections every second.
	causeAfter = 4
	maxLosses  = 50_000
)

func newLosses() *losses { return &losses{events: map[uuid.UUID]loss{}} }

// has reports whether the event must be sent apart.
func (l *losses) has(id uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[id].times >= apartAfter
}

// add notes that a publisher has ended with the event. It reports whether the event is the cause.
func (l *losses) add(id uuid.UUID, alone, closed bool, othersTaken time.Time) (cause bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) >= maxLosses {
		clear(l.events)
	}
	event := l.events[id]
	if event.times++; event.times == 1 {
		event.since = time.Now()
	}
	if closed {
		event.times = max(event.times, apartAfter)
	}
	if alone && (closed || event.times >= causeAfter && othersTaken.After(event.since)) {
		event, cause = loss{apartAfter, time.Now()}, true // so the next time it is alone at once
	}
	l.events[id] = event
	return cause
}

// remove notes that the destination has answered.
func (l *losses) remove(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.events, id)
}
