package relay

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// late has the confirms that came after the batch of the event had given up waiting, until they are
// recorded. Two sessions may have sent an event.
type late struct {
	mu          sync.Mutex
	events      map[uuid.UUID]store.Event
	isRecording bool
	some        chan struct{} // wakes a worker
}

func newLate() *late {
	return &late{events: map[uuid.UUID]store.Event{}, some: make(chan struct{}, 1)}
}

func (l *late) add(e store.Event) {
	e.Payload = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events[e.ID] = e
	signal(l.some)
}

func (l *late) has(id uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, is := l.events[id]
	return is
}

// isLeft reports whether there are confirms that no worker records now.
func (l *late) isLeft() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events) > 0 && !l.isRecording
}

// record records them. Any worker may do it, one at a time.
func (l *late) record(d *database) {
	l.mu.Lock()
	events := slices.Collect(maps.Values(l.events))
	mayRecord := len(events) > 0 && !l.isRecording
	l.isRecording = l.isRecording || mayRecord
	l.mu.Unlock()
	if !mayRecord {
		return
	}
	settled := d.settle(store.Settlement{Published: events})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isRecording = false; settled == nil {
		signal(l.some) // another worker may try
		return
	}
	for _, e := range events {
		delete(l.events, e.ID)
	}
}
