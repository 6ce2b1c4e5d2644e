// Package feed keeps the events from the write-ahead log that are not finished yet. To a relay it
// is the outbox: the relay claims events of the feed, publishes them, and writes their outcomes.
//
// The table outbox_queue has the state of each event. The feed gets an event only if claimEvents
// claims it. Otherwise the event waits for an older one of its order, is published already, or is in
// another claim. Then the feed leaves it to the poll of the table (left.go). A refused event waits in
// the table for its next attempt, so it is finished here.
package feed

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/store"
)

// maxEvents and maxBytes bound the memory. When the feed is full, the reader of the log waits.
const (
	maxEvents = 10_000
	maxBytes  = 64 << 20
)

// Feed is for one reader of the log and for a relay with one worker. It is a [source.Events].
type Feed struct {
	*store.Store
	pool  *pgxpool.Pool
	wake  func() // the relay
	space chan struct{}

	mu       sync.Mutex
	poll     poll
	entries  []*entry // in the order of the log
	byID     map[uuid.UUID]*entry
	bytes    int
	dropping bool          // the slot holds too much, so events are left to the poll
	received pglogrepl.LSN // everything up to here has been read
	before   pglogrepl.LSN // everything before the first entry's transaction ends here
	counts   Counts
}

// Counts has how many events had each outcome.
type Counts struct {
	Claimed int // by this feed, and then published or settled otherwise
	Left    int // left to the poll, or finished before
	Unseen  int // claims that came before the commit was visible
	Batches int // claims with events
}

type entry struct {
	event  store.Event
	end    pglogrepl.LSN // of its commit
	last   bool          // of its transaction
	state  state
	claim  uuid.UUID // the token of the claim that has it
	unseen int       // how many claims did not see it
	next   time.Time // when to try an unseen one again
}

type state int

const (
	waiting state = iota
	claimed
	done
)

// New returns an empty feed. It looks into the table each time that this interval has passed.
func New(pool *pgxpool.Pool, interval time.Duration) *Feed {
	return &Feed{
		Store: store.New(pool), pool: pool, poll: poll{interval: interval}, wake: func() {}, space: make(chan struct{}, 1), byID: map[uuid.UUID]*entry{},
	}
}

// OnAdd sets what is called when there are events to claim. Call it before the first Add.
func (f *Feed) OnAdd(wake func()) { f.wake = wake }

// Add adds the events of one transaction. Its commit ends at end.
func (f *Feed) Add(events []store.Event, end pglogrepl.LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.entries) == 0 {
		f.before = f.received
	}
	f.received = max(f.received, end)
	if f.dropping || len(events) > maxEvents {
		f.counts.Left += len(events)
		return
	}
	before := len(f.entries)
	for _, event := range events {
		f.add(event, end)
	}
	if len(f.entries) > before {
		f.entries[len(f.entries)-1].last = true
		f.wake()
	}
}

// add adds an event, unless the feed has it. The janitor inserts an unfinished event once more: it
// moves it out of an old slot of the ring.
func (f *Feed) add(event store.Event, end pglogrepl.LSN) {
	if f.byID[event.ID] != nil {
		return
	}
	e := &entry{event: event, end: end}
	f.entries, f.byID[event.ID] = append(f.entries, e), e
	f.bytes += len(event.Payload)
}

// Reached says that the log has no more events before lsn.
func (f *Feed) Reached(lsn pglogrepl.LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = max(f.received, lsn)
}

// Position is the end of the last commit before the first event that is not finished. It is zero
// if nothing was read yet.
func (f *Feed) Position() pglogrepl.LSN {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.entries) == 0 {
		return f.received
	}
	return f.before
}

// Restart forgets everything. The slot repeats what was not acknowledged.
func (f *Feed) Restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear()
	f.received, f.before = 0, 0
}

func (f *Feed) clear() {
	f.entries, f.bytes = nil, 0
	clear(f.byID)
	f.notifySpace()
}

// Drop leaves all events to the poll, also the next ones, until it is called with false.
// The events are in the queue, so none is lost. Call it when the slot holds too much of the log.
func (f *Feed) Drop(on bool) (dropped int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropping = on
	if !on {
		return 0
	}
	dropped = len(f.entries)
	f.counts.Left += dropped
	f.clear()
	return dropped
}

// Full reports whether the feed is full. Space then receives a value when there may be room.
func (f *Feed) Full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) >= maxEvents || f.bytes >= maxBytes
}

// Space receives after events were removed.
func (f *Feed) Space() <-chan struct{} { return f.space }

// Counts returns what became of the events until now.
func (f *Feed) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

func (f *Feed) notifySpace() {
	select {
	case f.space <- struct{}{}:
	default:
	}
}

// trim removes the events at the front that are done.
func (f *Feed) trim() {
	n := 0
	for n < len(f.entries) && f.entries[n].state == done {
		e := f.entries[n]
		if e.last {
			f.before = e.end
		}
		delete(f.byID, e.event.ID)
		f.bytes -= len(e.event.Payload)
		n++
	}
	if f.entries = f.entries[n:]; n > 0 {
		f.notifySpace()
	}
}
