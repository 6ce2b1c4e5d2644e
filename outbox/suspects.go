package outbox

import (
	"sync"

	"github.com/google/uuid"
)

// suspects are events that were sent when a session ended, and may be the cause. A message can make
// RabbitMQ close a channel, and a bad one can end a connection. An event is sent alone if the
// destination has closed a publisher that it was sent with, or if the connection was lost twice in
// a row with it.
type suspects struct {
	mu   sync.Mutex
	lost map[uuid.UUID]int // how many times in a row
}

const (
	aloneAfter = 2
	// An event that is alone when the connection is lost is the cause only if that happens again.
	// Somebody may cut connections every second.
	causeAfter  = 4
	maxSuspects = 50_000
)

func newSuspects() *suspects { return &suspects{lost: map[uuid.UUID]int{}} }

// has reports whether the event must be sent alone.
func (s *suspects) has(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[id] >= aloneAfter
}

// add notes that a session has ended with the event. It reports whether the event is the cause.
func (s *suspects) add(id uuid.UUID, alone, closed bool) (cause bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) >= maxSuspects {
		clear(s.lost)
	}
	s.lost[id]++
	if closed {
		s.lost[id] = max(s.lost[id], aloneAfter)
	}
	if alone && (closed || s.lost[id] >= causeAfter) {
		s.lost[id] = aloneAfter // so the next time it is alone at once
		return true
	}
	return false
}

// remove notes that the destination has answered.
func (s *suspects) remove(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lost, id)
}
