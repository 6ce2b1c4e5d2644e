package relay

import (
	"sync"
	"time"
)

// pace says how many events the workers of a relay may send before they are answered. It is a slow
// start: one event, and twice as many after each batch that is answered. It begins again after
// several events were lost together, or had no answer in time although their topics are not silent.
// So the event that ends publishers is soon alone, and a slow destination gets no more than it
// answers in time. A destination that answers one by one gets the full window at once. Each
// connection for probes has a pace of its own, which begins with one.
type pace struct {
	config *Config

	mu       sync.Mutex
	limit    int           // events that may wait for an answer
	all      places        // of all workers
	reserved int           // that claims under way may return
	began    time.Time     // when the slow start began; what was sent before tells nothing
	slow     int           // events of silent topics at that time
	shortest time.Duration // that a batch has waited for its answers; at most ConfirmTimeout
	free     chan struct{} // wakes a worker that has no room
}

func newPace(c *Config) *pace {
	return &pace{config: c, limit: 1, shortest: c.ConfirmTimeout, free: make(chan struct{}, 1)}
}

// room is how many more events may be sent now, and limit how many may wait for an answer.
func (p *pace) room() (room, limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.places()
}

// reserve keeps room for n events that a claim under way may return, or for as many as there is.
func (p *pace) reserve(n int) (kept int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	room, _ := p.places()
	kept = max(min(n, room), 0)
	p.reserved += kept
	return kept
}

// release gives back what reserve has kept.
func (p *pace) release(kept int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved -= kept
	signal(p.free)
}

// places is room, under the lock. While n events of silent topics wait, n+1 others may be sent: so
// many silent topics are found soon.
func (p *pace) places() (room, limit int) {
	limit = max(p.limit, p.all.slow-p.slow+1)
	return limit - p.all.waiting - p.reserved, limit
}

// change notes the places of a batch. It returns how many events wait.
func (p *pace) change(from, to places) (waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all.change(from, to); to.waiting < from.waiting {
		signal(p.free)
	}
	return p.all.waiting
}

// answered notes that all events of a batch have been answered: it began at a time, and so many
// waited then. So twice as many may wait, unless three times as many would not be answered in time.
// The estimate: shortest is what no number of events changes, and the rest grows with the number.
func (p *pace) answered(began time.Time, waited int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !began.After(p.began) {
		return
	}
	took := time.Since(began)
	if p.shortest = min(p.shortest, took); 3*took-2*p.shortest < p.config.ConfirmTimeout {
		p.limit = max(p.limit, min(2*waited, p.config.Workers*p.config.Window))
	}
}

// restart begins again with a limit.
func (p *pace) restart(limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.began, p.slow, p.shortest = limit, time.Now(), p.all.slow, p.config.ConfirmTimeout
}
