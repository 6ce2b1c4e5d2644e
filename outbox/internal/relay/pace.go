package relay

import (
	"sync"
	"time"
)

// pace says how many events the workers of a relay may send before they are answered. It is a slow
// start: one event, and twice as many after each batch that is answered. It begins again after
// several events were lost together, or had no answer in time although their topics are not silent.
// So the event that ends publishers is soon alone, and a slow destination gets no more than it
// answers in time. A destination that answers one by one has no limit here. Each connection for
// trial events has a pace of its own.
type pace struct {
	config *Config

	mu       sync.Mutex
	limit    int           // events that may wait for an answer
	waiting  int           // that wait for it, or to be recorded, of all workers
	reserved int           // that claims under way may return
	began    time.Time     // when the slow start began; what was sent before tells nothing
	shortest time.Duration // that a batch has waited for its answers; at most ConfirmTimeout
	silentAt time.Time     // when silent has counted last
	free     chan struct{} // wakes a worker that has no room
}

func newPace(c *Config) *pace {
	return &pace{config: c, limit: 1, shortest: c.ConfirmTimeout, free: make(chan struct{}, 1)}
}

// room is how many events may be sent, and limit how many if none waits for an answer.
func (p *pace) room() (room, limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit - p.waiting - p.reserved, p.limit
}

// reserve keeps room for the events that a claim under way may return.
func (p *pace) reserve(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved += n
}

// release gives back what reserve has kept.
func (p *pace) release(n int) {
	p.reserve(-n)
	signal(p.free)
}

// add counts events that have been claimed, or, if n is negative, recorded or given up. It returns
// how many wait.
func (p *pace) add(n int) (waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting += n; n < 0 {
		signal(p.free)
	}
	return p.waiting
}

// answered notes that all events of a batch have been answered, and how many waited when it was
// sent. So twice as many may wait, unless these would not be answered in time. isTaken says that
// some were confirmed: to refuse may be quicker.
func (p *pace) answered(sent time.Time, waited int, isTaken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(sent)
	if !sent.After(p.began) {
		return
	}
	if isTaken {
		p.shortest = min(p.shortest, took)
	}
	if 2*took-p.shortest < p.config.ConfirmTimeout {
		p.raise(2 * waited)
	}
}

func (p *pace) raise(limit int) {
	p.limit = max(p.limit, min(limit, p.config.Workers*p.config.Window))
}

// slow begins the slow start again.
func (p *pace) slow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.began, p.shortest = 1, time.Now(), p.config.ConfirmTimeout
}

// silent notes that no session has got an answer for SlowAfter, and since when. What is silent
// pauses its topic and gives up its place. The next one may be silent too, so twice as many may be
// sent: many silent topics are found soon. Sessions that were silent at the same time count once.
func (p *pace) silent(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since.After(p.silentAt) {
		p.silentAt = time.Now()
		p.raise(2 * p.limit)
	}
}
