package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// breaker is a circuit breaker for something that every message needs. It decides by what
// the work meets:
//
//   - open: messages flow. An error that is certainly the dependency's closes it at once.
//   - An error that may be the message's own waits for evidence. When another message is
//     accepted, the error is the message's own. When messages of [suspicious] different
//     keys have met such errors and none was accepted, or when nothing else happens for
//     [aloneFor], the dependency is at fault, and the breaker closes.
//   - closed: messages wait. One at a time is tried, with growing pauses between them. The
//     first one that is accepted opens the breaker.
//
// So nothing is spent on messages while the dependency is at fault, and one bad message
// does not stop the good ones.
type breaker struct {
	name   string
	probe  func(ctx context.Context) error // asked only while nobody waits
	closed prometheus.Gauge

	mu       sync.Mutex
	changed  chan struct{}       // closed and replaced at each change
	isClosed bool                //
	era      int                 // how often it has closed
	accepted int                 // how often something was accepted
	suspects map[string]struct{} // keys that met an unclear error since the last acceptance
	waiting  int                 // messages that wait for it to open
	trying   bool                // one message is being tried
	pause    time.Duration       // before the next trial
	next     time.Time           // when that may begin, by this process's clock
}

const (
	suspicious   = 3
	aloneFor     = time.Second
	firstPause   = time.Second
	longestPause = 10 * time.Second
	probeTimeout = 10 * time.Second
)

func newBreaker(name string, probe func(context.Context) error, closed prometheus.Gauge) *breaker {
	return &breaker{
		name: name, probe: probe, closed: closed,
		changed: make(chan struct{}), suspects: map[string]struct{}{},
	}
}

// ticket allows its holder one piece of work. Exactly one of its methods ends it; leave
// may follow.
type ticket struct {
	*breaker
	era   int
	trial bool
}

// enter waits until the breaker is open, or the caller's is the message that is tried. It
// returns an error when ctx ends first.
func (b *breaker) enter(ctx context.Context) (*ticket, error) {
	for {
		t, changed, wait := b.tryEnter()
		if t != nil {
			return t, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		b.add(-1)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// tryEnter counts the caller as waiting if it returns no ticket.
func (b *breaker) tryEnter() (t *ticket, changed <-chan struct{}, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isClosed {
		return &ticket{b, b.era, false}, nil, 0
	}
	wait = time.Until(b.next)
	if !b.trying && wait <= 0 {
		b.trying = true
		return &ticket{b, b.era, true}, nil, 0
	}
	if b.trying {
		wait = time.Hour // the end of the trial is a change
	}
	b.waiting++
	return nil, b.changed, wait
}

func (b *breaker) add(waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting += waiting
}

// accept tells that the dependency did the work. Work that began before the breaker closed
// proves nothing about now.
func (t *ticket) accept() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.era != t.breaker.era {
		return
	}
	t.accepted++
	if len(t.suspects) > 0 || t.isClosed {
		t.open()
		t.change()
	}
}

// valid reports whether the work may still be done: the breaker has not closed since, or
// this is the trial.
func (t *ticket) valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.era == t.breaker.era
}

// leave ends a trial that has proved nothing.
func (t *ticket) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trial && t.isClosed && t.trying && t.era == t.breaker.era {
		t.trial, t.trying = false, false
		t.change()
	}
}

// fail tells that the dependency is certainly at fault.
func (t *ticket) fail(ctx context.Context, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.close(ctx, err)
	t.endTrial(ctx, err)
}

// suspect tells that the work met an error that may be the dependency's or the message's
// own. It waits for evidence, and reports whether the error is the message's own.
func (t *ticket) suspect(ctx context.Context, key string, err error) (own bool) {
	alone := time.NewTimer(aloneFor)
	defer alone.Stop()
	accepted := t.noteSuspect(ctx, key, err)
	for {
		t.mu.Lock()
		changed, isClosed, proved := t.changed, t.isClosed, t.accepted > accepted
		t.mu.Unlock()
		switch {
		case proved:
			return true
		case isClosed:
			return false
		}
		select {
		case <-changed:
		case <-alone.C:
			t.fail(ctx, err)
		case <-ctx.Done():
			return false
		}
	}
}

func (t *ticket) noteSuspect(ctx context.Context, key string, err error) (accepted int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspects[key] = struct{}{}
	if len(t.suspects) >= suspicious {
		t.close(ctx, err)
	}
	t.endTrial(ctx, err)
	return t.accepted
}

func (b *breaker) close(ctx context.Context, err error) {
	if b.isClosed {
		return
	}
	slog.WarnContext(ctx, "gate closed, messages wait", "dependency", b.name, "error", err)
	b.isClosed, b.era, b.trying, b.pause = true, b.era+1, false, firstPause
	b.next = time.Now().Add(b.pause)
	b.closed.Set(1)
	b.change()
}

// endTrial makes the next trial wait longer.
func (t *ticket) endTrial(ctx context.Context, err error) {
	if !t.trial || !t.trying || t.era != t.breaker.era {
		return
	}
	t.trial, t.trying = false, false
	t.pause = min(2*t.pause, longestPause)
	t.next = time.Now().Add(t.pause)
	slog.WarnContext(ctx, "still away", "dependency", t.name, "tried_again_in", t.pause.String(), "error", err)
	t.change()
}

func (b *breaker) open() {
	clear(b.suspects)
	if !b.isClosed {
		return
	}
	slog.Info("gate open, messages flow", "dependency", b.name)
	b.isClosed, b.trying = false, false
	b.closed.Set(0)
}

// change wakes everybody who waits.
func (b *breaker) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// watch asks the dependency itself while it is closed and no message is there to be tried.
func (b *breaker) watch(ctx context.Context) error {
	tick := time.NewTicker(longestPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			b.ask(ctx)
		}
	}
}

func (b *breaker) ask(ctx context.Context) {
	if b.isOpen() || b.isWaitedFor() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if b.probe(ctx) == nil && !b.isWaitedFor() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open()
		b.change()
	}
}

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.isClosed
}

func (b *breaker) isWaitedFor() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting > 0 || b.trying
}
