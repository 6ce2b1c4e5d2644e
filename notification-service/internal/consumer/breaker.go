package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// breaker is a circuit breaker for a dependency of all messages. "Open" and "closed" are those
// of a gate, and the opposite of the usual terms: open means that messages flow.
//
//   - Open: messages flow. An error that is certainly the dependency's closes it at once.
//   - Unclear: an error may be the dependency's or the message's own. The message is tried
//     again, with growing pauses, and as soon as another message is accepted. If it fails
//     again after another one was accepted, the error is its own.
//   - When [suspicious] messages wait with unclear errors at the same time, and none is
//     accepted, the breaker closes.
//   - Closed: messages wait. One at a time is tried, with growing pauses between them. The
//     first one that is accepted opens the breaker.
//
// So no message loses a retry while the dependency is at fault, and one bad message does not
// stop the good ones.
type breaker struct {
	name   string
	probe  func(ctx context.Context) error // asked only while nobody waits
	closed prometheus.Gauge

	mu       sync.Mutex
	changed  chan struct{}           // closed and replaced at each change
	isClosed bool                    // messages wait
	era      int                     // how often it has closed
	accepted int                     // how often something was accepted
	suspects map[*suspicion]struct{} // messages that wait after an unclear error
	waiting  int                     // messages that wait for it to open
	trying   bool                    // one message is being tried
	pause    time.Duration           // before the next trial
	next     time.Time               // when that may begin, by this process's clock
}

const (
	suspicious   = 3
	firstPause   = time.Second
	longestPause = 10 * time.Second
	longestAlone = 15 * time.Second // between the tries of a message without evidence
	probeTimeout = 10 * time.Second
)

// suspicion is what a message remembers of its unclear errors.
type suspicion struct {
	times    int // how often it met one
	accepted int // how many others had been accepted at the last time
	again    int // how often it failed for certain although others had been accepted
}

func newBreaker(name string, probe func(context.Context) error, closed prometheus.Gauge) *breaker {
	return &breaker{
		name: name, probe: probe, closed: closed,
		changed: make(chan struct{}), suspects: map[*suspicion]struct{}{},
	}
}

// ticket allows its holder one piece of work. The holder calls at most one of accept, fail and
// suspect when it knows the result, and always leave at the end.
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

// failed is fail for a message. It returns how often the message has failed so although
// others had been accepted since its last failure.
func (t *ticket) failed(ctx context.Context, s *suspicion, err error) (again int) {
	t.mu.Lock()
	if s.times > 0 && t.accepted > s.accepted {
		s.again++
	}
	s.times, s.accepted = s.times+1, t.accepted
	t.mu.Unlock()
	t.fail(ctx, err)
	return s.again
}

// suspect tells that the work met an error that may be the dependency's or the message's
// own. It reports whether there is evidence that the error is the message's own. If not, it
// returns when the message may be tried again.
func (t *ticket) suspect(ctx context.Context, s *suspicion, err error) (own bool) {
	if t.evidence(ctx, s, err) {
		return true
	}
	pause := time.NewTimer(min(firstPause<<min(s.times-1, 10), longestAlone))
	defer pause.Stop()
	defer t.acquit(s)
	for {
		changed, decided := t.decided(s)
		if decided {
			return false
		}
		select {
		case <-changed:
		case <-pause.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (t *ticket) evidence(ctx context.Context, s *suspicion, err error) (own bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.endTrial(ctx, err)
	if s.times > 0 && t.accepted > s.accepted {
		return true
	}
	s.times, s.accepted = s.times+1, t.accepted
	t.suspects[s] = struct{}{}
	if len(t.suspects) >= suspicious {
		t.close(ctx, err)
	}
	return false
}

// decided reports whether s need not wait any more: another message was accepted, or the
// breaker closed.
func (b *breaker) decided(s *suspicion) (changed <-chan struct{}, decided bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed, b.isClosed || b.accepted > s.accepted
}

// acquit forgets a suspect that is tried again, or gone.
func (b *breaker) acquit(s *suspicion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.suspects, s)
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

// watch probes the dependency while the breaker is closed and no message waits to be tried.
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
