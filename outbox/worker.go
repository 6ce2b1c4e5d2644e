package outbox

import (
	"context"
	"time"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// worker is a loop with a connection of its own.
type worker struct {
	*Relay
	name     string
	probes   bool   // it claims the probes of paused topics, and nothing else
	replaced func() // another worker takes the place of this one
	leave    func() // the connection is of no more use
	session  publish.Session
	oneByOne bool    // the session is a publish.OneByOne
	sender   *sender // nil until the first claim, and after the publisher was lost

	hand    hand
	answers answers
	late    []store.Event // published, although the worker had given up waiting
	tries   int           // how many topics the next claim of probes tries

	// These find the event that ends publishers. It may be one of many that were sent together.
	alone  []*item  // suspects in hand, to be sent when nothing else waits for an answer
	group  int      // how many of them were sent together the last time
	losses []answer // since the publisher has ended

	due            bool           // events may be due
	notBefore      time.Time      // no claim before
	renewed        time.Time      // the leases
	claimed        time.Time      // before the last claim was asked for
	isUnmarked     bool           // it has answers that it could not mark
	heard          time.Time      // when the destination last answered anything
	left           bool           // it claims no more, and ends when nothing is in hand
	isStuck        bool           // it was replaced
	publisherEnded bool           // it sends nothing more
	failed         error          // there is no other publisher on this session
	failures       int            // of the database, one after the other
	retryAt        time.Time      // after a failure: nothing is written before
	ended          chan time.Time // gets the time when ctx ends
	ending         time.Time      // that time, once the worker has noticed it
}

const (
	// smallBatchPause is the pause after a claim that took all that was due. The events that are
	// committed meanwhile make one larger batch instead of many small ones, and each batch costs the
	// database the same. The first event after a quiet time does not wait.
	smallBatchPause = 2 * time.Millisecond
	// shortestWait keeps the loop from turning without a pause, whatever next says.
	shortestWait = 100 * time.Microsecond
	// lossPause is the pause after a publisher was lost. The next one may be lost at once.
	lossPause = 50 * time.Millisecond
	// blockedCheck is how often a worker asks whether the destination still blocks.
	blockedCheck = 100 * time.Millisecond
	// maxBytes bounds the payloads in hand, and so the memory of a worker.
	maxBytes = 64 << 20
	// renewEvery is how often the leases of what is in hand are renewed.
	renewEvery = time.Second
	// probeLimit is how many topics are tried at once, and probePause the least time between two claims.
	// A new connection tries one. While the destination answers, each claim tries twice as many.
	probeLimit = 100
	probePause = 50 * time.Millisecond
)

// run claims, publishes and settles until ctx ends or the session is lost, and then until nothing is
// in hand.
func (w *worker) run(ctx context.Context) error {
	poll := time.NewTicker(w.config.PollInterval)
	defer poll.Stop()
	defer w.end()
	w.due, w.heard, w.ended = true, time.Now(), make(chan time.Time, 1)
	defer context.AfterFunc(ctx, func() { w.ended <- time.Now() })()
	for {
		w.take()
		silent := w.judge(time.Now())
		w.settle(ctx)
		if silent { // only now: before the pauses are written, the other worker would claim these topics
			w.replace()
		}
		if w.finished(ctx) {
			return w.failed
		}
		if w.mayClaim(ctx) {
			w.publish(ctx, w.claim(ctx))
		}
		w.sendAlone() //nolint:contextcheck // what is claimed is sent, also when ctx has ended
		w.renew(ctx)
		w.wait(ctx, poll.C)
	}
}

// wait returns when there are answers, something may be due, or time has something to do.
func (w *worker) wait(ctx context.Context, poll <-chan time.Time) {
	wake, done := w.wake, ctx.Done()
	if w.probes {
		wake = w.probe
	}
	if !w.hasRoom() || w.session.Blocked() {
		wake = nil // another worker may have room
	}
	if !w.ending.IsZero() {
		done = nil
	}
	timer := time.NewTimer(max(time.Until(w.next()), shortestWait))
	defer timer.Stop()
	select {
	case <-w.answers.some:
	case <-wake:
		w.due = true
		if w.probes {
			w.notBefore = earlier(w.notBefore, time.Now().Add(firstTopicPause))
		}
	case <-poll:
		w.due = true
	case <-timer.C:
	case <-done:
		w.ending = <-w.ended // a statement may have held the worker up since then
		if w.sender != nil {
			w.sender.finish()
		}
	}
}

// next is when time has something to do.
func (w *worker) next() time.Time {
	next := time.Now().Add(w.config.PollInterval)
	if w.due && w.ending.IsZero() && w.hasRoom() {
		next = earlier(next, w.notBefore)
		if w.session.Blocked() {
			next = time.Now().Add(blockedCheck)
		}
	}
	if !w.hand.empty() {
		next = earlier(next, w.renewed.Add(renewEvery))
		next = earlier(next, w.hand.next(w.config))
	}
	if !w.ending.IsZero() {
		next = earlier(next, w.ending.Add(w.config.ShutdownTimeout))
	}
	if next.Before(w.retryAt) {
		return w.retryAt
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// finished reports whether the worker has nothing more to do.
func (w *worker) finished(ctx context.Context) bool {
	if !w.ending.IsZero() && (time.Since(w.ending) >= w.config.ShutdownTimeout || w.session.Blocked()) {
		w.close() // so what has no answer yet is released
		w.take()
		w.settle(ctx)
		return true
	}
	if !w.hand.empty() {
		return false
	}
	return ctx.Err() != nil || w.left || w.failed != nil
}

// hasRoom reports whether half of the window is free.
func (w *worker) hasRoom() bool {
	return !w.publisherEnded && !w.left && w.failed == nil && len(w.alone) == 0 && !w.sender.full() && w.room() >= (w.config.Window+1)/2
}

func (w *worker) room() int {
	if w.probes && w.hand.waiting() > 0 {
		return 0 // a queue that does not take its probe may stop the connection, and others would wait
	}
	if w.hand.slow() >= maxSlowWindows*w.config.Window || w.hand.bytes() >= maxBytes {
		return 0
	}
	return w.config.Window - w.hand.waiting()
}

func (w *worker) mayClaim(ctx context.Context) bool {
	now := time.Now()
	if !w.due || ctx.Err() != nil || !w.hasRoom() || now.Before(w.notBefore) || now.Before(w.retryAt) {
		return false
	}
	if w.unmarked.Load() > 0 {
		w.notBefore = now.Add(lossPause)
		return false
	}
	blocked := w.session.Blocked()
	w.state.blocked.Store(blocked)
	return !blocked
}

// claim has its own deadline. If it commits after that, the events wait for the lease to end.
func (w *worker) claim(ctx context.Context) (claim store.Claim) {
	began := time.Now()
	w.claimed = began
	ok := w.execute(ctx, "cannot claim from the outbox", func(ctx context.Context) (err error) {
		if w.probes {
			claim, err = w.events.ClaimProbes(ctx, w.name, w.tries, w.config.Lease)
		} else {
			claim, err = w.events.Claim(ctx, w.name, w.room(), w.config.Lease)
		}
		return err
	})
	if !ok {
		return store.Claim{}
	}
	w.counters.count(func(s *Stats) {
		s.Claims.add(time.Since(began))
		s.Superseded += uint64(claim.Superseded) //nolint:gosec // positive
	})
	w.planNext(claim)
	return claim
}

// planNext decides when the next claim is.
func (w *worker) planNext(claim store.Claim) {
	now := time.Now()
	switch {
	case w.probes && claim.NextProbe == nil:
		w.left = true // no topic is paused
	case w.probes:
		w.notBefore = now.Add(max(probePause, time.Duration(*claim.NextProbe*float64(time.Second))))
	case claim.NextProbe != nil:
		w.wakeProber()
	}
	if w.probes {
		if len(claim.Events) > 0 {
			w.tries = min(2*w.tries, probeLimit)
		}
		return
	}
	if w.due = claim.More; claim.More {
		w.wakeWorker() // another worker can take the rest
	} else if len(claim.Events) > 0 {
		w.notBefore = now.Add(smallBatchPause)
	}
}

// publish gives the claimed events to the publisher. Those that may have ended a session are sent
// alone, later.
func (w *worker) publish(ctx context.Context, claim store.Claim) {
	if len(claim.Events)+len(claim.NoPayload) == 0 {
		return
	}
	w.log.step(ctx, "outbox events fetched", "count", len(claim.Events), "worker", w.name)
	crashpoint.At("relay.claimed")
	if !w.probes {
		w.topics.claimed(claim.Events)
	}
	if w.hand.empty() {
		w.renewed = time.Now()
	}
	b := w.newBatch(ctx, claim)
	w.hand.batches = append(w.hand.batches, b)
	var together []*item
	for _, it := range b.items {
		switch {
		case it.state != unsent: // it is not to be sent
		case w.suspects.has(it.event.ID):
			w.alone = append(w.alone, it)
		default:
			together = append(together, it)
		}
	}
	w.send(b, together) //nolint:contextcheck // what is claimed is sent, also when ctx has ended
}

// sendAlone sends suspects when nothing else waits for an answer: first one, and after each success
// twice as many. So the one among thousands that ends a session is soon alone. Those of a paused
// topic wait with their topic.
func (w *worker) sendAlone() {
	for len(w.alone) > 0 && !w.publisherEnded && w.hand.open() == 0 {
		w.group = max(1, 2*w.group)
		b, group := w.alone[0].batch, []*item(nil)
		for len(w.alone) > 0 && w.alone[0].batch == b && len(group) < w.group {
			it := w.alone[0]
			w.alone = w.alone[1:]
			if !w.ending.IsZero() || !w.probes && w.topics.isPaused(it.event.Topic) {
				it.verdict = verdict{unknown: true} // it is due again when its claim ends
				it.set(answered)
				continue
			}
			group = append(group, it)
		}
		w.send(b, group)
	}
}

// send hands events of a batch to the publisher.
func (w *worker) send(b *batch, items []*item) {
	if len(items) == 0 {
		return
	}
	for _, it := range items {
		it.set(sent)
	}
	b.sentAt, b.slow = time.Now(), false
	if w.sender == nil {
		w.sender = newSender(func() (publish.Publisher, error) { return w.session.NewPublisher(w.config.Window) })
	}
	w.sender.send(b.lease, items, &w.answers, b.sentAt.Add(w.config.ConfirmTimeout*9/10))
}

// end frees what the worker holds.
func (w *worker) end() {
	w.close()
	if w.isUnmarked {
		w.unmarked.Add(-1)
	}
	if w.left {
		w.leave() // otherwise KeepConnected would connect again
	}
	if w.isStuck {
		w.stuck.Add(-1)
	}
}

// close ends the publisher. What has no answer yet is unknown.
func (w *worker) close() {
	if w.sender != nil {
		w.failed = w.sender.close()
	}
	w.sender, w.publisherEnded = nil, false
}

// take notes the answers that have come.
func (w *worker) take() {
	for _, a := range w.answers.all() {
		w.heard = time.Now()
		w.note(a.item, a.result)
	}
	if w.publisherEnded && w.hand.open() == 0 {
		w.noteLoss()
		w.close()
		w.notBefore = time.Now().Add(lossPause)
	}
}
