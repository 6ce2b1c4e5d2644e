package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gate is a circuit breaker for a dependency that all messages need. While the gate is open,
// messages flow. While it is closed, they wait. (A closed gate is an open circuit.)
//
//   - An error that is certainly the dependency's closes the gate at once.
//   - An unclear error may be the dependency's or the message's own. The message is tried
//     again after a pause, or as soon as another message succeeds. If it fails again after
//     another one succeeded, the error is its own.
//   - When [suspectsToClose] messages wait with unclear errors at the same time, and none
//     succeeds, the gate closes.
//   - While the gate is closed, one message at a time is tried, with growing pauses. The first
//     one that succeeds opens the gate.
//
// So no message loses a retry while the dependency is at fault, and one bad message does not
// stop the good ones.
type gate struct {
	name        string
	probe       func(ctx context.Context) error // called only while no message waits
	closedGauge prometheus.Gauge

	mu         sync.Mutex
	changed    chan struct{}                // closed and replaced at each change
	isClosed   bool                         // messages wait
	generation int                          // how often the gate has closed
	successes  int                          // how often a message succeeded
	suspects   map[*failureHistory]struct{} // messages that wait after an unclear error
	waiting    int                          // messages that wait for the gate to open
	trying     bool                         // one message is being tried
	pause      time.Duration                // before the next trial
	nextTrial  time.Time                    // the earliest time, by this process's clock
}

const (
	suspectsToClose = 3
	firstPause      = time.Second
	maxPause        = 10 * time.Second
	probeTimeout    = 10 * time.Second
)

func newGate(name string, probe func(context.Context) error, closedGauge prometheus.Gauge) *gate {
	return &gate{
		name: name, probe: probe, closedGauge: closedGauge,
		changed: make(chan struct{}), suspects: map[*failureHistory]struct{}{},
	}
}

// enter waits until the gate is open, or until it is the caller's turn to be the trial. It
// returns an error when ctx ends first.
func (g *gate) enter(ctx context.Context) (*permit, error) {
	for {
		p, changed, wait := g.tryEnter()
		if p != nil {
			return p, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		g.addWaiting(-1)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// tryEnter counts the caller as waiting if it returns no permit.
func (g *gate) tryEnter() (p *permit, changed <-chan struct{}, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isClosed {
		return &permit{g, g.generation, false}, nil, 0
	}
	wait = time.Until(g.nextTrial)
	if !g.trying && wait <= 0 {
		g.trying = true
		return &permit{g, g.generation, true}, nil, 0
	}
	if g.trying {
		wait = time.Hour // the end of the trial wakes the caller
	}
	g.waiting++
	return nil, g.changed, wait
}

func (g *gate) addWaiting(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += n
}

func (g *gate) close(ctx context.Context, err error) {
	if g.isClosed {
		return
	}
	slog.WarnContext(ctx, "gate closed, messages wait", "dependency", g.name, "error", err)
	g.isClosed, g.generation, g.trying, g.pause = true, g.generation+1, false, firstPause
	g.nextTrial = time.Now().Add(g.pause)
	g.closedGauge.Set(1)
	g.wake()
}

func (g *gate) open() {
	clear(g.suspects)
	if !g.isClosed {
		return
	}
	slog.Info("gate open, messages flow", "dependency", g.name)
	g.isClosed, g.trying = false, false
	g.closedGauge.Set(0)
}

// wake wakes every goroutine that waits for a change.
func (g *gate) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// watch probes the dependency while the gate is closed and no message waits to be tried.
func (g *gate) watch(ctx context.Context) error {
	tick := time.NewTicker(maxPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.probeOnce(ctx)
		}
	}
}

func (g *gate) probeOnce(ctx context.Context) {
	if g.isOpen() || g.hasWaiting() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if g.probe(ctx) == nil && !g.hasWaiting() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.open()
		g.wake()
	}
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.isClosed
}

func (g *gate) hasWaiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting > 0 || g.trying
}
