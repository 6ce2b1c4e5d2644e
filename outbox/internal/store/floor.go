package store

import (
	"sync"
	"time"
)

// floor is where claims begin to read the queue. Somebody may hold an old snapshot: a long
// transaction, a prepared one, a standby, a dump. Then vacuum removes nothing, and the index of due
// events begins with an entry for each event that was finished since. A claim would read all of
// them, each time. So it reads from where the last full read has found the first due event.
//
// An event that becomes due before the floor waits for the next full read. That is one whose
// transaction was open for longer than floorMargin.
type floor struct {
	mu    sync.Mutex
	since time.Time // by the database's clock
	until time.Time // then a claim reads everything again; by the clock of this process
}

const (
	floorMargin = time.Second
	// Full reads take at most a twentieth of the time, and there is one every floorAge at least.
	floorShare = 20
	floorAge   = 10 * time.Second
)

// from returns where to begin, and whether this is a full read.
func (f *floor) from(now time.Time) (since time.Time, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Before(f.until) {
		return f.since, false
	}
	return time.Time{}, true // the year 1
}

// set records a full read, which has found the first due event.
func (f *floor) set(first, begin, end time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = first.Add(-floorMargin)
	f.until = end.Add(min(floorShare*end.Sub(begin), floorAge))
}
