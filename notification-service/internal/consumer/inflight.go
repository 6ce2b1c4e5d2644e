package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// inFlight holds the ids of the messages that this process is handling. When a session ends,
// the broker delivers a message again while its first delivery may still be in flight.
type inFlight struct {
	mu       sync.Mutex
	messages map[uuid.UUID]*inFlightMessage
}

type inFlightMessage struct {
	committedAt time.Time // the event's commit, by the producer's database
	released    chan struct{}
}

// acquire waits until no other delivery of the same message is in flight. The returned function
// releases the id.
func (f *inFlight) acquire(d *delivery) (release func(), err error) {
	for {
		other := f.tryAcquire(d)
		if other == nil {
			return func() { f.release(d.id) }, nil
		}
		d.markWaiting()
		select {
		case <-other.released:
		case <-d.held.Done():
			return nil, context.Cause(d.held)
		}
	}
}

func (f *inFlight) tryAcquire(d *delivery) (other *inFlightMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other = f.messages[d.id]; other == nil {
		f.messages[d.id] = &inFlightMessage{d.Timestamp, make(chan struct{})}
	}
	return other
}

func (f *inFlight) release(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.messages[id].released)
	delete(f.messages, id)
}

// oldest returns when the oldest event in flight was committed; zero if none is in flight.
func (f *inFlight) oldest() (committedAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.messages {
		if committedAt.IsZero() || m.committedAt.Before(committedAt) {
			committedAt = m.committedAt
		}
	}
	return committedAt
}
