package relay

import (
	"sync"
	"time"
)

// pace is how much the workers of a relay send before the destination has answered, and for how
// long they wait until it is silent. It is a slow start: one event, and twice as many after each
// batch that is answered. It begins again after a publisher was lost or nothing was answered. So the
// event that ends publishers is soon alone, and a slow destination gets no more than it answers in
// time. A destination that answers one by one has no pace, and each connection for the trial events
// of paused topics one of its own.
type pace struct {
	config *Config

	mu       sync.Mutex
	limit    int           // events that may wait for an answer
	waiting  int           // that do, of all workers
	asked    int           // that claims under way may return
	began    time.Time     // when the slow start began; what was sent before tells nothing
	shortest time.Duration // that a batch has waited for its answers since then; at most ConfirmTimeout
	patience time.Duration // after so long without an answer, the destination is silent
	free     chan struct{} // wakes a worker that has no room
}

func newPace(c *Config) *pace {
	return &pace{config: c, limit: 1, shortest: c.ConfirmTimeout, patience: c.SlowAfter, free: make(chan struct{}, 1)}
}

// room is how many events may be sent, and limit how many if none waits for an answer.
func (p *pace) room() (room, limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit - p.waiting - p.asked, p.limit
}

// ask counts events that a claim may return, or has.
func (p *pace) ask(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked += n
}

// add counts events that wait for an answer, or no more. It returns how many do.
func (p *pace) add(n int) (waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting += n; n < 0 {
		signal(p.free)
	}
	return p.waiting
}

// answered notes that all events of a batch have been answered, and how many waited when it was
// sent. So twice as many may wait, unless these would not be answered in time.
func (p *pace) answered(sent time.Time, waited int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(sent)
	p.shortest = min(p.shortest, took)
	if took <= p.config.SlowAfter {
		p.patience = p.config.SlowAfter
	}
	if sent.After(p.began) && 2*took-p.shortest < p.config.ConfirmTimeout {
		p.limit = max(p.limit, min(2*waited, p.config.Workers*p.config.Window))
	}
}

// slow begins the slow start again.
func (p *pace) slow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.began, p.shortest = 1, time.Now(), p.config.ConfirmTimeout
}

// silent notes that a session has answered nothing for as long as patience. The next ones have
// twice as long, until a batch is answered within SlowAfter: the destination may be slow.
func (p *pace) silent() {
	p.slow()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.patience = min(2*p.patience, p.config.ConfirmTimeout)
}

// silentAfter is how long a destination may take until it is silent.
func (p *pace) silentAfter() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.patience, p.config.ConfirmTimeout)
}
