package world

import (
	"slices"

	"github.com/google/uuid"
)

// promises checks three promises of the project on everything that has happened so far.
func (w *World) promises() []Row {
	return []Row{
		verdict("nothing is lost", "in no queue, and without an effect", w.lost()),
		verdict("no effect happens twice", "more than one effect of", w.repeated()),
		verdict("the events of an order are published in order", "published after a newer one", w.outOfOrder()),
	}
}

func verdict(promise, fault, events string) Row {
	if events == "" {
		return Row{Name: promise, Text: "true"}
	}
	return Row{Name: promise, Text: fault + ": " + events, Bad: true}
}

// lost returns the events that are neither in the outbox's queue, nor at the broker, nor consumed.
func (w *World) lost() string {
	var lost []uuid.UUID
	for _, e := range w.outbox.Events() {
		isIt := func(m message) bool { return m.id == e.ID }
		if !w.waits(e.ID) && !slices.ContainsFunc(w.broker.queue, isIt) && !isIt(w.consumer.message) && w.effectsOf(e.ID) == 0 {
			lost = append(lost, e.ID)
		}
	}
	return w.names(lost)
}

func (w *World) waits(id uuid.UUID) bool {
	for _, q := range w.outbox.Queue() {
		if q.ID == id {
			return true
		}
	}
	return false
}

func (w *World) effectsOf(id uuid.UUID) (n int) {
	for _, e := range w.consumer.effects {
		if e.id == id {
			n++
		}
	}
	return n
}

func (w *World) repeated() string {
	var repeated []uuid.UUID
	for _, e := range w.outbox.Events() {
		if w.effectsOf(e.ID) > 1 {
			repeated = append(repeated, e.ID)
		}
	}
	return w.names(repeated)
}

// outOfOrder returns the events that the broker received for the first time after a newer event of
// the same order.
func (w *World) outOfOrder() string {
	newest, seen := map[uuid.UUID]int{}, map[uuid.UUID]bool{}
	var late []uuid.UUID
	for _, id := range w.broker.received {
		e := w.events[id]
		if !seen[id] && e.version < newest[e.order] {
			late = append(late, id)
		}
		seen[id] = true
		newest[e.order] = max(newest[e.order], e.version)
	}
	return w.names(late)
}
