package relay

import (
	"context"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// item is an event of a batch.
type item struct {
	batch    *batch
	event    store.Event
	message  publish.Message
	trace    context.Context // the message's own
	state    state
	decision decision // once it is decided
	inFlight bool     // it has no answer, and the sender waits for one; belongs to the sender
}

type state int

const (
	unsent   state = iota
	sent           // the publisher has begun it
	slow           // it has waited for so long that it takes no place in the window
	decided        // and not recorded
	recorded       // a late confirm may still come
)

func (it *item) set(to state) {
	it.batch.count[it.state]--
	it.batch.count[to]++
	it.state = to
}

// counts reports whether an answer counts, although the batch has given up waiting.
func (it *item) counts(o outcome) bool {
	return o == confirmed && it.decision.event != published
}

// free forgets the payload, and returns its size.
func (it *item) free() int64 {
	size := int64(len(it.event.Payload))
	it.event.Payload, it.message.Body = nil, nil
	return size
}
