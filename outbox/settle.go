package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// note records the answer to an event, and what becomes of it.
func (w *worker) note(it *item, result publish.Result) {
	if it.state == answered || it.state == settled {
		if result.Outcome == publish.Confirmed && !it.verdict.published {
			w.late = append(w.late, it.event)
		}
		return
	}
	if it.batch.count[answered] == 0 {
		it.batch.first = time.Now()
	}
	it.set(answered)
	it.verdict = w.decide(it.event, result, w.probes)
	switch {
	case result.Outcome == publish.Unknown && it.verdict.unknown:
		w.publisherEnded = true
		w.losses = append(w.losses, answer{it, result})
		return // noteLoss reports it
	case it.verdict.unknown:
		w.publisherEnded = !w.oneByOne // this one goes on with others
	case result.Outcome == publish.Confirmed, result.Outcome == publish.Returned, result.Outcome == publish.Refused:
		w.suspects.remove(it.event.ID)
	}
	w.report(it, result)
}

// noteAll records the same answer to all events of a batch that wait for one.
func (w *worker) noteAll(b *batch, result publish.Result) {
	for _, it := range b.items {
		if it.state == sent {
			w.note(it, result)
		}
	}
}

// noteLoss looks for the event that made the session end. It runs when the publisher is lost, and
// all of it has an answer.
func (w *worker) noteLoss() {
	for _, a := range w.losses {
		if w.suspects.add(a.event.ID, len(w.losses) == 1, errors.Is(a.result.Err, publish.ErrClosed)) {
			a.result.Outcome = publish.Refused
			a.verdict = w.decide(a.event, a.result, w.probes)
		}
		w.report(a.item, a.result)
	}
	w.losses, w.group = nil, 0
}

// settle writes what is answered: a batch when all of it is, or SettleAfter after its first answer.
func (w *worker) settle(ctx context.Context) {
	now := time.Now()
	if now.Before(w.retryAt) || w.publisherEnded && w.hand.open() > 0 && !w.oneByOne {
		return // noteLoss may still find that an event was refused
	}
	for _, b := range w.hand.batches {
		waits := b.count[sent]+b.count[unsent] > 0 && now.Sub(b.first) < w.config.SettleAfter
		if (b.count[answered] > 0 && !waits || len(b.pauses) > 0) && !w.settleBatch(ctx, b) {
			break
		}
	}
	if len(w.late) > 0 && w.write(ctx, store.Settlement{Published: w.late}) != nil {
		w.late = nil
	}
	w.hand.drop()
	w.noteUnmarked()
}

// noteUnmarked lets the other workers wait while this one cannot mark what it has sent. Its lease may
// end, and they would send the same events.
func (w *worker) noteUnmarked() {
	if is := w.oneByOne && w.failures > 0 && w.hand.answered() > 0; is != w.isUnmarked {
		w.isUnmarked = is
		w.unmarked.Add(map[bool]int64{true: 1, false: -1}[is])
	}
}

// settleBatch writes what is answered of a batch. It reports whether it has succeeded.
func (w *worker) settleBatch(ctx context.Context, b *batch) bool {
	crashpoint.At("relay.confirmed")
	settlement, want := w.settlement(b)
	done := w.write(ctx, settlement)
	if done == nil {
		return false
	}
	crashpoint.At("relay.marked")
	missing := max(0, want-done.Held)
	w.counters.count(func(s *Stats) {
		s.LeaseLost += uint64(missing) //nolint:gosec // positive
	})
	if missing > 0 {
		w.log.trouble(ctx, "lease lost: this relay no longer holds these events", "events", missing)
	}
	w.fail(ctx, b, done.Failed)
	for _, it := range b.items {
		if it.state == answered {
			it.set(settled)
		}
	}
	b.pauses = nil
	return true
}

// settlement returns what is to be written of a batch, and how many events the lease must still hold
// for it.
func (w *worker) settlement(b *batch) (s store.Settlement, held int) {
	s = store.Settlement{
		Token: b.token, End: b.count[sent]+b.count[unsent] == 0, Probe: w.probes, Paused: map[string]string{},
		GiveUp: w.config.GiveUp, FirstPause: firstTopicPause, LongestPause: w.config.LongestTopicPause,
	}
	resumed, again := map[string]bool{}, map[string]bool{}
	for _, topic := range b.pauses {
		s.Paused[topic] = "no answer for " + slowAfter.String()
	}
	for _, it := range b.items {
		if it.state == sent && slices.Contains(b.pauses, it.event.Topic) {
			s.Halted = append(s.Halted, it.event.ID)
		}
		if it.state != answered {
			continue
		}
		v := it.verdict
		switch {
		case v.published:
			s.Published = append(s.Published, it.event)
		case !v.unknown:
			s.Failures = append(s.Failures, v.failure)
		}
		topic := it.event.Topic
		if v.pause || v.failure.Halt { // whoever halts an event writes the pause
			s.Paused[topic] = v.failure.Reason
		}
		again[topic] = w.probes && (v.unknown || v.failure.Final) // its destination has not said anything
		if v.resume && !resumed[topic] && !w.topics.isPaused(topic) {
			resumed[topic] = true
			s.Resumed = append(s.Resumed, topic)
		}
	}
	for topic, isAgain := range again {
		if _, paused := s.Paused[topic]; isAgain && !paused {
			s.ProbeAgain = append(s.ProbeAgain, topic)
		}
	}
	return s, len(s.Failures)
}

// write returns nil if the statement has failed. Then the same is written again later.
func (w *worker) write(ctx context.Context, s store.Settlement) *store.Settled {
	var done store.Settled
	s.Durable = w.config.DurableMarks
	began := time.Now()
	ok := w.execute(ctx, "cannot settle events, trying again", func(ctx context.Context) (err error) {
		done, err = w.events.Settle(ctx, s)
		return err
	})
	if !ok {
		return nil
	}
	w.counters.count(func(stats *Stats) {
		if len(s.Published) > 0 {
			stats.Marks.add(time.Since(began))
		}
		for _, failure := range s.Failures {
			if _, failed := done.Failed[failure.ID]; (failure.Counts || failure.Code == store.CodeNoAnswer) && !failed {
				stats.Retries++
			}
		}
	})
	if len(s.Paused) > 0 {
		w.wakeProber()
	}
	if len(s.ProbeAgain) > 0 {
		w.notBefore = earlier(w.notBefore, time.Now().Add(probePause))
	}
	w.due = true // the later events of the aggregates may be due
	if w.probes {
		w.wakeWorker() // and those of a topic whose pause has ended
	}
	return &done
}

// fail reports the events that have failed.
func (w *worker) fail(ctx context.Context, b *batch, failed map[uuid.UUID]time.Time) {
	for _, it := range b.items {
		if _, ok := failed[it.event.ID]; !ok {
			continue
		}
		failure := it.verdict.failure
		w.counters.count(func(s *Stats) {
			s.Failed++
			if failure.Counts {
				s.RetryExhaustions++
			}
		})
		w.log.ErrorContext(ctx, "event failed", "message_id", failure.ID, "failure_code", failure.Code, "error", failure.Reason)
	}
}

// renew makes the leases of what is in hand longer.
func (w *worker) renew(ctx context.Context) {
	if now := time.Now(); w.hand.empty() || now.Sub(w.renewed) < renewEvery || now.Before(w.retryAt) {
		return
	}
	w.renewed = time.Now()
	var held []uuid.UUID
	ok := w.execute(ctx, "cannot renew leases", func(ctx context.Context) (err error) {
		held, err = w.events.Renew(ctx, w.hand.tokens(), w.config.Lease)
		return err
	})
	for _, b := range w.hand.batches {
		switch {
		case !ok:
		case slices.Contains(held, b.token):
			b.lease.extend(w.renewed, w.config.Lease)
		default:
			b.lease.end()
		}
	}
}

// recoveryPause is how long a worker claims nothing after a failure of the database, so that others
// can mark what they have sent. Their leases may have ended meanwhile.
const recoveryPause = 2 * time.Second

// hold lets nothing more be sent of what is in hand: it could not be marked. A broker's consumers
// ignore a repeat, so only a destination that answers OneByOne needs it.
func (w *worker) hold() {
	if !w.oneByOne {
		return
	}
	for _, b := range w.hand.batches {
		b.lease.end()
	}
}

// statementTimeout bounds the first attempt. Each further attempt has more time, up to 15 s, so that
// a database that is only slow can finish one of them. At the end, the last attempt has
// lastStatementTimeout.
const (
	statementTimeout     = 5 * time.Second
	lastStatementTimeout = time.Second
)

// The pauses after a failure of the database. After its restart, each connection of the pool fails
// once.
const (
	firstRetryPause = 50 * time.Millisecond
	lastRetryPause  = time.Second
)

// execute executes a statement, also if ctx has ended: otherwise a claim that is committed would
// wait for the end of its lease. It reports whether the statement has succeeded.
func (w *worker) execute(ctx context.Context, trouble string, statement func(context.Context) error) bool {
	w.failures++ // set back below if it succeeds
	timeout := time.Duration(min(w.failures, 3)) * statementTimeout
	if !w.ending.IsZero() {
		timeout = min(timeout, max(time.Until(w.ending.Add(w.config.ShutdownTimeout)), lastStatementTimeout))
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := statement(finish); err != nil {
		w.retryAt = time.Now().Add(min(firstRetryPause<<min(w.failures-1, 10), lastRetryPause))
		w.state.database.Store(&err)
		w.log.trouble(ctx, trouble, "error", err)
		w.hold()
		return false
	}
	if w.failures > 1 && w.oneByOne {
		w.notBefore = time.Now().Add(recoveryPause)
	}
	w.failures, w.retryAt = 0, time.Time{}
	w.state.database.Store(nil)
	return true
}
