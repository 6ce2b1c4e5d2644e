// Package world is a small system that a reader moves step by step: clients, two processes
// whose relays are the real one (package outbox), the outbox (package model), a broker with one
// queue, and a consumer with an inbox. Between two steps, nothing moves except the relays' own timers.
package world

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/simulator/model"
)

// World is the whole system. Its methods may be called from any goroutine.
type World struct {
	mu       sync.Mutex
	outbox   *model.Outbox
	events   map[uuid.UUID]event
	orders   []order
	broker   broker
	consumer consumer
	relays   [2]*process
	log      []string      // the last things that the reader did
	did      int           // how many things the reader did
	progress progress      // in a lesson
	moved    chan struct{} // a relay has reached its next step
	onChange func()
}

// order is an order of a client. Each change of it is an event.
type order struct {
	id       uuid.UUID
	name     string
	versions int
}

type event struct {
	name    string // of the order and its version, such as A1
	order   uuid.UUID
	version int
}

// topics are those of the first, second and third event of an order.
var topics = []string{"order.created", "order.confirmed", "order.cancelled"}

// orderNames are the names of the orders, one letter each.
const orderNames = "ABCDEFGH"

// These keep the page readable, and fast after thousands of clicks.
const (
	maxOrders = len(orderNames)
	maxLog    = 200
	// maxQueue is the longest queue whose messages the reader can duplicate.
	maxQueue = 50
)

// New returns a system at rest. onChange is called when a relay reaches a step by itself, for
// example because a pause of it is over.
func New(onChange func()) *World {
	w := &World{
		outbox: model.New(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), events: map[uuid.UUID]event{},
		broker: broker{bound: true, refuses: map[uuid.UUID]bool{}}, consumer: consumer{step: idle},
		moved: make(chan struct{}, 1), onChange: onChange,
	}
	for i := range w.relays {
		w.relays[i] = w.start(relayName(i))
	}
	w.settle()
	return w
}

func relayName(i int) string { return fmt.Sprintf("relay %d", i+1) }

// Close kills everything.
func (w *World) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.relays {
		p.kill()
	}
}

// changed is called by a relay that waits for the reader.
func (w *World) changed() {
	select {
	case w.moved <- struct{}{}:
	default: // somebody is told already
	}
	w.onChange()
}

// longestWork is how long a relay may need for its next step. If it needs longer, it pauses by
// itself, and says so through onChange when it goes on.
const longestWork = 200 * time.Millisecond

// settle waits until each living relay waits for the reader.
func (w *World) settle() {
	end := time.After(longestWork)
	for !w.atRest() {
		select {
		case <-w.moved:
		case <-end:
			return
		}
	}
}

func (w *World) atRest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.relays {
		if !p.dead && p.worker.call == nil {
			return false
		}
	}
	return true
}

// place stores a new order with its event, or the next change of an order.
func (w *World) place(i int) {
	if i == len(w.orders) {
		w.orders = append(w.orders, order{id: uuid.New(), name: orderNames[i : i+1]})
	}
	o := &w.orders[i]
	o.versions++
	id := uuid.New()
	w.events[id] = event{name: fmt.Sprintf("%s%d", o.name, o.versions), order: o.id, version: o.versions}
	w.outbox.Append(id, o.id, o.versions, topics[o.versions-1], false)
}
