package system

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// load places orders from several clients until stop, and records the results.
type load struct {
	clients sync.WaitGroup
	cancel  context.CancelFunc
	address atomic.Pointer[string]

	mu       sync.Mutex
	placed   []string // the orders that were answered with 201
	failures []error  // all other answers
	changed  chan struct{}
}

func (s *system) startLoad(clients int, orders *service) *load {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context()) // ends the load but interrupts no request
	l := &load{cancel: cancel, changed: make(chan struct{}, 1)}
	l.sendTo(orders)
	for range clients {
		l.clients.Go(func() {
			for ctx.Err() == nil {
				id, err := place(s.Context(), *l.address.Load())
				l.record(id, err)
			}
		})
	}
	s.Cleanup(func() { l.stop() })
	return l
}

// record adds the result of a request. After an error it is unknown whether the order was
// placed.
func (l *load) record(id string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, err)
		return
	}
	l.placed = append(l.placed, id)
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// sendTo directs the clients to another process.
func (l *load) sendTo(orders *service) {
	address := orders.address()
	l.address.Store(&address)
}

// awaitMore waits for n more orders.
func (l *load) awaitMore(t *testing.T, n int) {
	t.Helper()
	for target := l.count() + n; l.count() < target; {
		select {
		case <-l.changed:
		case <-t.Context().Done():
			t.Fatal("no more orders are placed")
		}
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.placed)
}

func (l *load) stop() {
	l.cancel()
	l.clients.Wait()
}
