package relay

import (
	"fmt"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// maxSlowWindows bounds what is slow, in windows.
const maxSlowWindows = 8

// errNotRead is the reason if another session takes events of the topic.
var errNotRead = fmt.Errorf("%w on a connection that the destination does not read", publish.ErrTimeout)

// expire gives up waiting for answers that are late. An answer that comes still later counts if it
// is a confirm. It reports whether the destination has answered nothing at all for SlowAfter.
func (w *worker) expire(now time.Time) (silent bool) {
	if w.session.Blocked() { // time does not run while the destination asks to wait
		w.quiet = now
		for _, b := range w.inFlight.batches {
			if !b.sentAt.IsZero() {
				b.sentAt = now
			}
		}
		return false
	}
	if silent = !now.Before(w.silentAt()); silent {
		w.quiet = now
	}
	for _, b := range w.inFlight.batches {
		isOld := !now.Before(w.expiresAt(b))
		switch {
		case b.count[sent] == 0 || b.sentAt.IsZero():
		case (isOld || silent) && w.mayBecomeSlow(b):
			b.slow, w.tries = true, 1
			if !w.oneByOne { // otherwise it says itself which topics are slow: ErrBusy
				w.pauseSlow(b)
			}
		case isOld:
			for _, it := range b.items {
				if it.state == sent {
					w.accept(it, publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout})
				}
			}
		case w.phase == replaced && now.Sub(w.quiet) >= w.config.SlowAfter:
			w.releaseTaken(b)
		}
	}
	return silent
}

// silentAt is when the destination will have answered nothing for SlowAfter, although it has got
// something.
func (w *worker) silentAt() time.Time {
	if w.oneByOne || w.phase != working || w.inFlight.count(sent) == 0 {
		return never
	}
	return w.quiet.Add(min(w.config.SlowAfter, w.config.ConfirmTimeout))
}

// never is later than every time.
var never = time.Unix(1<<40, 0)

// expiresAt is when the wait for the answers to a batch is over: first for its place in the window,
// and then at all. A session that answers one by one has its own bound for each message.
func (w *worker) expiresAt(b *batch) time.Time {
	switch {
	case b.count[sent] == 0 || b.sentAt.IsZero():
		return never
	case w.mayBecomeSlow(b):
		return b.sentAt.Add(min(w.config.SlowAfter, w.config.ConfirmTimeout))
	case w.oneByOne:
		return never
	}
	return b.sentAt.Add(w.config.ConfirmTimeout)
}

// mayBecomeSlow reports whether the batch gives up its place in the window after SlowAfter. If a
// session answers one by one, only a trial event does: the next topics are tried meanwhile.
func (w *worker) mayBecomeSlow(b *batch) bool {
	return !b.slow && (w.trials || !w.oneByOne) && w.inFlight.slow() <= (maxSlowWindows-1)*w.config.Window
}

// pauseSlow pauses the topics of a batch of which nothing was taken since the batch was sent.
func (w *worker) pauseSlow(b *batch) {
	for _, it := range b.items {
		if topic := it.event.PauseName(); it.state == sent && w.topics.lastTaken(topic).Before(b.sentAt) {
			w.topics.pause(topic)
			b.pauses = append(b.pauses, topic)
		}
	}
}

// releaseTaken makes those events due whose topic another session takes: they are sent again there.
// This session may stay silent until ConfirmTimeout. What it has not written yet it must not write
// later, because the next event of the aggregate may be sent meanwhile. So the lease of the batch
// ends.
func (w *worker) releaseTaken(b *batch) {
	for _, it := range b.items {
		if it.state == sent && w.topics.lastTaken(it.event.PauseName()).After(b.sentAt) {
			w.accept(it, publish.Result{Outcome: publish.Unknown, Err: errNotRead})
			b.lease.end()
		}
	}
}
