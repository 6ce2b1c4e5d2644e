package relay

import (
	"context"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// worker is a loop with a session of its own. Each turn has the same steps, each in a file:
//
//	receive   takes the answers that have come, and decides about each event (receive.go, decide.go)
//	expire    decides about the events whose answer is late (expire.go)
//	renew     makes the leases of what is in flight longer (lease.go)
//	record    writes what was decided (record.go)
//	claim     leases what is due (claim.go)
//	send      hands it to the publisher, and what may end the publisher apart from it (send.go)
//	wait      until there are answers or events, or until it is time for one of the steps
type worker struct {
	*Relay
	name     string
	trials   bool   // it claims the trial events of paused topics, and nothing else
	replace  func() // lets another worker take the place of this one
	leave    func() // the session is of no more use: called once
	session  publish.Session
	oneByOne bool    // the session is a publish.OneByOne
	sender   *sender // nil until the first claim, and after the publisher was lost

	phase    phase
	running  context.Context // ends with the session, or with the relay: then nothing more is begun
	over     context.Context // ends ShutdownTimeout after the relay's context, or sessionTimeout after the session's
	inFlight inFlight
	answers  answers
	late     []store.Event // confirmed after the worker had given up waiting

	// These find the event that ends publishers. It may be one of many that were sent together.
	apart []*item  // in flight, to be sent when nothing else waits for an answer
	group int      // how many of them were sent together the last time
	lost  []answer // what has no answer, since the publisher has ended

	due       bool      // events may be due
	dueAt     time.Time // when the next event becomes due; zero: nobody knows
	notBefore time.Time // no claim before
	tries     int       // how many topics the next claim of trial events tries
	claimed   time.Time // before the last claim was asked for
	renewed   time.Time // the leases
	quiet     time.Time // since when the destination has answered nothing, while something waits; or since the last look at it

	sessionErr   error           // there is no other publisher on this session
	lastCall     context.Context // ends when no statement may run any more
	failures     int             // of the database, one after the other
	retryAt      time.Time       // after a failure: nothing is written before
	isUnrecorded bool            // it has answers that it could not record
}

// phase is what a worker does. In each one but working it claims nothing, and it ends when nothing
// is in flight.
type phase int

const (
	working  phase = iota
	replaced       // another worker has its place, because the destination does not answer this session
	done           // no topic is to be tried
	broken         // the session opens no publisher
	ending         // the session or the relay ends: nothing more is begun
)

const (
	// sessionTimeout is how long a worker finishes what is in flight after its session has ended. The
	// messages of a lost connection are answered at once.
	sessionTimeout = 35 * time.Second
	// shortestWait keeps the loop from turning without a pause, whatever next says.
	shortestWait = 100 * time.Microsecond
	// blockedCheck is how often a worker asks whether the destination still blocks.
	blockedCheck = 100 * time.Millisecond
	// takenCheck is how often a worker that is replaced looks whether another one has got through.
	takenCheck = 200 * time.Millisecond
)

// run repeats the steps until ctx ends or the session is lost, and then until nothing is in flight.
func (w *worker) run(ctx context.Context) error {
	poll := time.NewTicker(w.config.PollInterval)
	defer poll.Stop()
	defer w.end()
	over, cancel := context.WithCancel(w.over)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(max(sessionTimeout, w.config.ShutdownTimeout), cancel) })()
	w.running, w.over, w.due = ctx, over, true
	for {
		w.receive()
		silent := w.expire(time.Now())
		if _, err := w.noAnswer(); !w.saysNoAnswer.Swap(err != nil) && err != nil {
			w.log.ErrorContext(ctx, "the destination does not answer", "error", err)
		}
		w.renew(ctx) // before a record that has to wait for a lock
		w.record(ctx)
		if silent { // only now: before the pauses are written, the other worker would claim these topics
			w.leaveToAnother()
		}
		if w.finished(ctx) {
			return w.sessionErr
		}
		if w.mayClaim(ctx) {
			w.send(ctx, w.claim(ctx))
		}
		w.sendApart() //nolint:contextcheck // the sender looks at running
		w.wait(ctx, poll.C)
	}
}

// after returns a context that ends d after ctx.
func after(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return later, cancel
}

// wait returns when there are answers, something may be due, or time has something to do.
func (w *worker) wait(ctx context.Context, poll <-chan time.Time) {
	wake, end := w.wake, ctx.Done()
	if w.trials {
		wake = w.tryTopics
	}
	if !w.hasRoom() || w.session.Blocked() {
		wake = nil // another worker may have room
	}
	if w.phase == ending {
		end = w.over.Done()
	}
	timer := time.NewTimer(max(time.Until(w.next()), shortestWait))
	defer timer.Stop()
	select {
	case <-w.answers.some:
	case <-wake:
		w.due = true
		if w.trials {
			w.notBefore = earlier(w.notBefore, time.Now().Add(w.config.firstTopicPause()))
		}
	case <-poll:
		w.due = true
	case <-timer.C:
	case <-end:
		w.leaveForGood()
		w.phase = ending
	}
}

// leaveForGood keeps KeepConnected from connecting again for a worker that has no more work.
func (w *worker) leaveForGood() {
	if w.phase == replaced || w.phase == done {
		w.leave()
	}
}

// next is when time has something to do.
func (w *worker) next() time.Time {
	next := time.Now().Add(w.config.PollInterval)
	if w.phase == working && w.hasRoom() {
		switch {
		case w.due && w.session.Blocked():
			next = earlier(next, time.Now().Add(blockedCheck))
		case w.due:
			next = earlier(next, w.notBefore)
		case !w.dueAt.IsZero():
			next = earlier(next, later(w.dueAt, w.notBefore))
		}
	}
	if w.phase != working && w.inFlight.empty() {
		next = time.Now() // it has ended
	}
	if !w.inFlight.empty() {
		next = earlier(next, earlier(w.renewed.Add(renewEvery), w.silentAt()))
		if w.phase == replaced {
			next = earlier(next, time.Now().Add(takenCheck))
		}
	}
	for _, b := range w.inFlight.batches {
		next = earlier(next, earlier(w.recordAt(b), w.expiresAt(b)))
	}
	return later(next, w.retryAt)
}

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

// finished reports whether the worker has nothing more to do. If no answer is waited for, it closes the
// publisher, and records what there is.
func (w *worker) finished(ctx context.Context) bool {
	isOver := w.phase == ending && w.over.Err() != nil
	switch {
	case isOver || w.phase == ending && w.session.Blocked():
		w.closePublisher()
		for _, it := range w.apart {
			it.release()
		}
		w.apart = nil
		w.receive()
		w.findCause()
		w.retryAt = time.Time{}
		w.record(ctx) // what has no answer yet is released
	case w.phase == working || !w.inFlight.empty():
		return false
	default:
		w.closePublisher()
		w.receive() // a late confirm may have come while the last decisions were recorded
	}
	return isOver || w.inFlight.empty() && len(w.late) == 0
}

// end frees what the worker holds.
func (w *worker) end() {
	w.closePublisher()
	w.bytes.Add(-w.inFlight.bytes())
	w.inFlight = inFlight{} // a call that does not return keeps the worker in memory
	if w.isUnrecorded {
		w.unrecorded.Add(-1)
	}
	w.leaveForGood()
}

// closePublisher ends the publisher. What has no answer yet is unknown.
func (w *worker) closePublisher() {
	if w.sender == nil {
		return
	}
	if w.sessionErr = w.sender.close(); w.sessionErr != nil && w.phase == working {
		w.phase = broken
	}
	w.sender = nil
}

// leaveToAnother lets another worker, with another session, take the place of this one: RabbitMQ
// stops reading a whole connection when one queue does not take what was sent.
func (w *worker) leaveToAnother() {
	if w.phase != working {
		return
	}
	if w.replacedWorkers.Add(1) > maxReplaced {
		w.replacedWorkers.Add(-1)
		return
	}
	w.phase = replaced
	leave := w.leave
	w.leave = func() { w.replacedWorkers.Add(-1); leave() }
	if w.sender != nil {
		w.sender.emptyQueue()
	}
	for _, it := range w.apart {
		w.accept(it, publish.Result{Outcome: publish.Unknown, Err: errNotRead}) // its claim stays open
	}
	w.apart = nil
	w.replace()
}
