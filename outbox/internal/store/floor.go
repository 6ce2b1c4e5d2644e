package store

import (
	"sync"
	"time"
)

// floor is where claims begin to read the queue. A claim that begins at the front is a full read.
// It finds the first due event that a relay may take, and there the next claims begin. Two kinds of
// events may stand before it, and it would be slow to read them in each claim:
//
//   - events that were finished. Somebody may hold an old snapshot: a long transaction, a prepared
//     one, a standby, a dump. Then vacuum removes nothing, and the index of due events begins with
//     an entry for each event that was finished since;
//   - events of paused topics. Each full read halts some of them.
//
// An event that becomes due before the floor waits for the next full read. That is one whose
// transaction was open for longer than floorMargin. If topics were paused or resumed, the first
// claim that sees it makes the next one a full read.
type floor struct {
	mu     sync.Mutex
	since  time.Time // by the database's clock
	until  time.Time // then a claim reads everything again; by the clock of this process
	paused int       // topics, as the last claim saw them; maxTopics means that many or more
}

const (
	floorMargin = time.Second
	// Full reads take a twentieth of the time, and there is one every floorAge at least.
	floorShare = 20
	floorAge   = 10 * time.Second
)

// from returns where to begin, and whether this is a full read. There is one at a time: those of
// several workers in a row would delay all others.
func (f *floor) from(now time.Time) (since time.Time, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Before(f.until) {
		return f.since, false
	}
	f.until = now.Add(floorAge)
	return time.Time{}, true // the year 1
}

// last is where a claim that is no full read begins.
func (f *floor) last() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.since
}

// again makes the next claim a full read.
func (f *floor) again() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Time{}
}

// set records a full read.
func (f *floor) set(read found, begin, end time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since, f.paused = read.first.Add(-floorMargin), read.paused
	f.until = end.Add(min(floorShare*end.Sub(begin), floorAge))
}

// pausesChanged makes the next claim a full read if there is the first row of a topic, or if the
// number of paused topics has changed since the last claim. It returns whether it did. (One topic
// that is paused while another one is resumed waits for the next full read, and so does a change
// above maxTopics.) The events of a resumed topic are in front of the floor. Those of a topic that
// was just paused must be halted soon, because one of them is to be tried.
func (f *floor) pausesChanged(paused int, appeared bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if paused == f.paused && !appeared {
		return false
	}
	f.until, f.paused = time.Time{}, paused
	return true
}
