package relay

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// item is an event in flight.
type item struct {
	batch   *batch
	event   store.Event
	message publish.Message
	trace   context.Context // the message's own
	state   state
	verdict verdict // once it is decided
}

type state int

const (
	unsent   state = iota
	sent           // it waits for its answer
	lost           // its publisher has ended without an answer, and it is not yet known which event was the cause
	decided        // and not recorded
	recorded       // a late confirm may still come
)

// batch is the events of a claim.
type batch struct {
	token  uuid.UUID
	items  []*item
	read   time.Time         // when the ages of the events were read
	count  [recorded + 1]int // of the items in each state
	bytes  int64             // of their payloads
	sentAt time.Time         // of those that wait for an answer; zero: the publisher has not begun
	first  time.Time         // when the first decision was made that is not recorded
	slow   bool              // it has waited for so long that it takes no place in the window
	pauses []string          // topics to pause, because nothing was taken
	lease  *lease
}

func (b *batch) add(it item) {
	it.batch = b
	b.items = append(b.items, &it)
	b.count[it.state]++
	b.bytes += int64(len(it.event.Payload))
}

// open is how many events of the batch have no verdict.
func (b *batch) open() int { return b.count[unsent] + b.count[sent] + b.count[lost] }

func (it *item) set(to state) {
	it.batch.count[it.state]--
	it.batch.count[to]++
	it.state = to
}

// decide sets the verdict.
func (it *item) decide(v verdict) {
	if it.batch.count[decided] == 0 {
		it.batch.first = time.Now()
	}
	it.verdict = v
	it.set(decided)
}

// free forgets the payload, and returns its size.
func (it *item) free() int64 {
	size := int64(len(it.event.Payload))
	it.event.Payload, it.message.Body = nil, nil
	it.batch.bytes -= size
	return size
}

// release makes the event due again when its claim ends.
func (it *item) release() { it.decide(verdict{released: true}) }

// inFlight is what a worker has claimed and not recorded.
type inFlight struct{ batches []*batch }

func (f *inFlight) empty() bool { return len(f.batches) == 0 }

// count is how many events are in a state.
func (f *inFlight) count(in state) (n int) {
	for _, b := range f.batches {
		n += b.count[in]
	}
	return n
}

// slow is how many events take no place in the window, although they have no answer.
func (f *inFlight) slow() (n int) {
	for _, b := range f.batches {
		if b.slow {
			n += b.count[sent]
		}
	}
	return n
}

// waiting is how many events take a place in the window.
func (f *inFlight) waiting() int {
	return f.count(unsent) + f.count(sent) + f.count(lost) + f.count(decided) - f.slow()
}

// bytes are those of the payloads.
func (f *inFlight) bytes() (n int64) {
	for _, b := range f.batches {
		n += b.bytes
	}
	return n
}

func (f *inFlight) tokens() (tokens []uuid.UUID) {
	for _, b := range f.batches {
		tokens = append(tokens, b.token)
	}
	return tokens
}

// drop forgets what is recorded.
func (f *inFlight) drop() {
	f.batches = slices.DeleteFunc(f.batches, func(b *batch) bool {
		isDone := b.count[recorded] == len(b.items)
		if isDone {
			b.lease.end()
		}
		return isDone
	})
}
