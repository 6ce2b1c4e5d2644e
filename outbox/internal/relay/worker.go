package relay

import (
	"context"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/internal/store"
)

// worker claims events, and starts a batch for each claim, with a session of its own.
type worker struct {
	name       string
	config     *Config
	topics     *topics
	sender     *sender
	database   *database
	renewals   *database // executes them beside the others
	window     *window
	pace       *pace
	schedule   schedule
	leases     *leases
	unanswered *unanswered
	late       *late
	report     *reporter

	isProbe   bool          // it claims the probes of paused topics, and nothing else
	wake      chan struct{} // for any worker
	tryTopics chan struct{} // for the worker that tries paused topics
	replace   func() bool   // lets another worker take the place of this one, unless too many have done so

	by      deadlines
	batches sync.WaitGroup
	last    chan struct{} // closed when there is time for only one more statement
}

const (
	// sessionTimeout, or ShutdownTimeout if that is longer, is how long a worker waits for answers after
	// its session has ended. The messages of a lost connection are answered at once.
	sessionTimeout = 35 * time.Second
	// shortestWait keeps a loop from turning without a pause, whatever next says.
	shortestWait = 100 * time.Microsecond
	// blockedCheck is how often a worker asks whether the destination still blocks.
	blockedCheck = 100 * time.Millisecond
)

// run claims events until the session or the relay ends, or another worker has its place, or no
// topic is to be tried. Then it waits for its batches.
func (w *worker) run(ctx context.Context) error { //nolint:contextcheck // see renew
	answers, cancel := context.WithCancel(w.by.answers)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(max(sessionTimeout, w.config.ShutdownTimeout), cancel) })()
	w.by = deadlines{answers, w.by.publishers, w.by.statements}
	w.database.by = w.by
	poll := time.NewTicker(w.config.PollInterval)
	defer poll.Stop()
	renew, stop := context.WithCancel(w.database.by.statements) // until the batches have ended
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer stop()
	renewing.Go(func() { w.leases.renew(renew, w.renewals) })
	isReplaced := false
	for ctx.Err() == nil && w.sender.err == nil && !w.schedule.isDone {
		w.tend(ctx)
		if isReplaced = w.pauseIfSilent() && w.replace(); isReplaced {
			break
		}
		if w.mayClaim(ctx) {
			w.claim(ctx)
		}
		w.wait(ctx, poll.C)
	}
	w.sender.end()
	w.drain(ctx, isReplaced)
	return w.sender.err
}

// tend does what has become necessary, apart from a claim.
func (w *worker) tend(ctx context.Context) {
	n := w.window.take()
	w.schedule.hear(n)
	if n.isPaused {
		signal(w.tryTopics)
	}
	if n.isDue && w.isProbe {
		signal(w.wake) // the events of a topic whose pause has ended may be due
	}
	if w.sender.tend(w.by.publishers) { //nolint:contextcheck // there is time for this when ctx has ended
		w.schedule.notBefore = time.Now().Add(lossPause)
	}
	w.unanswered.logSilence(ctx, w.report.log)
	w.database.health.blocked.Store(w.sender.session.Blocked())
	if !time.Now().Before(w.database.notBefore()) {
		w.late.record(w.database)
	}
}

// wait returns when the batches have something to tell, events may be due, or time has something to
// do.
func (w *worker) wait(ctx context.Context, poll <-chan time.Time) {
	wake, free := w.wake, (chan struct{})(nil)
	if w.isProbe {
		wake = w.tryTopics
	}
	if !w.hasRoom() || w.sender.session.Blocked() {
		wake, free = nil, w.pace.free // another worker may have room
	}
	timer := time.NewTimer(max(time.Until(w.next()), shortestWait))
	defer timer.Stop()
	select {
	case <-w.window.some:
	case <-w.sender.changed:
	case <-w.late.some:
	case <-free:
	case <-wake:
		w.schedule.isDue = true
		if w.isProbe {
			w.schedule.notBefore = earlier(w.schedule.notBefore, time.Now().Add(w.config.firstTopicPause()))
		}
	case <-poll:
		w.schedule.isDue = true
	case <-timer.C:
	case <-ctx.Done():
	}
}

// next is when time has something to do.
func (w *worker) next() time.Time {
	next := time.Now().Add(w.config.PollInterval)
	if w.hasRoom() {
		next = earlier(next, later(w.schedule.at(w.sender.session.Blocked()), w.database.notBefore()))
	}
	if w.late.isLeft() {
		next = earlier(next, w.database.notBefore())
	}
	return earlier(next, w.sender.silentAt())
}

// start makes a batch of a claim.
func (w *worker) start(ctx context.Context, claim store.Claim, asked time.Time) {
	if len(claim.Events)+len(claim.NoPayload) == 0 {
		return
	}
	w.report.log.Step(ctx, "outbox events fetched", "count", len(claim.Events), "worker", w.name)
	crashpoint.At("relay.claimed")
	b := &batch{
		config: w.config, topics: w.topics, sender: w.sender, database: w.database, window: w.window, report: w.report, late: w.late,
		isProbe: w.isProbe, lease: w.leases.begin(claim.Token, asked), began: time.Now(),
		answers: answers{some: make(chan struct{}, 1)}, silence: make(chan struct{}, 1), ended: make(chan struct{}), last: w.last,
	}
	for _, e := range claim.Events {
		m, trace := w.report.message(ctx, e)
		b.add(item{event: e, message: m, trace: trace})
	}
	for _, e := range claim.NoPayload {
		b.add(item{event: e, state: decided, decision: decision{event: failed, topic: untried, failure: store.Failure{
			ID: e.ID, Final: true, Code: codeNoPayload, Reason: "the event is in outbox_queue, and its payload is not in outbox_events",
		}}})
	}
	b.waited = w.window.set(b, b.places())
	b.send() //nolint:contextcheck // the sender has a context of its own
	w.batches.Go(b.run)
}

// drain waits until each event in flight has its answer and is recorded, as long as there is time.
func (w *worker) drain(ctx context.Context, isReplaced bool) {
	isDone := func() bool {
		isLate := w.late.isLeft() || isReplaced && ctx.Err() == nil && w.sender.awaitsLate()
		return w.window.isEmpty() && !isLate || w.by.answers.Err() != nil
	}
	w.await(ctx, func() bool { return isDone() || ctx.Err() != nil && w.sender.session.Blocked() })
	w.sender.close(w.by.publishers) //nolint:contextcheck // the same
	w.await(ctx, isDone)
	close(w.last)
	w.batches.Wait()
	w.tend(ctx)
}

func (w *worker) await(ctx context.Context, isDone func() bool) {
	check := time.NewTicker(blockedCheck)
	defer check.Stop()
	for {
		w.tend(ctx)
		if isDone() {
			return
		}
		select {
		case <-w.window.some:
		case <-w.sender.changed:
		case <-w.late.some:
		case <-check.C:
		case <-w.by.answers.Done():
		}
	}
}

// after returns a context that ends d after ctx.
func after(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return later, cancel
}

// never is later than every time.
var never = time.Unix(1<<40, 0)

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
