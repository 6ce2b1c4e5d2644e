package relay

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/internal/store"
)

// record writes what was decided.
func (w *worker) record(ctx context.Context) {
	now := time.Now()
	if now.Before(w.retryAt) {
		return
	}
	for _, b := range w.inFlight.batches {
		if !now.Before(w.recordAt(b)) && !w.recordBatch(ctx, b) {
			break
		}
	}
	w.unanswered.recordLate(func(late []store.Event) bool { return w.write(ctx, store.Settlement{Published: late}) != nil })
	if len(w.late) > 0 && w.write(ctx, store.Settlement{Published: w.late}) != nil {
		w.late = nil
	}
	w.inFlight.drop()
	w.noteUnrecorded()
}

// recordAt is when the decisions about a batch are to be written: all of them at once, or
// SettleAfter after the first one.
func (w *worker) recordAt(b *batch) time.Time {
	switch {
	case len(b.pauses) > 0, b.open() == 0:
		return time.Time{}
	case b.count[decided] == 0:
		return never
	}
	return b.first.Add(w.config.SettleAfter)
}

// noteUnrecorded lets the other workers wait while this one cannot record what it has sent. Its
// lease may end, and they would send the same events.
func (w *worker) noteUnrecorded() {
	if is := w.oneByOne && w.failures > 0 && w.inFlight.count(decided) > 0; is != w.isUnrecorded {
		w.isUnrecorded = is
		w.unrecorded.Add(map[bool]int64{true: 1, false: -1}[is])
	}
}

// recordBatch writes what was decided about a batch. It reports whether it has succeeded.
func (w *worker) recordBatch(ctx context.Context, b *batch) bool {
	crashpoint.At("relay.confirmed")
	settlement := w.settlement(b)
	settled := w.write(ctx, settlement)
	if settled == nil {
		return false
	}
	crashpoint.At("relay.marked")
	if missing := max(0, len(settlement.Failures)-settled.Held); missing > 0 {
		w.counters.count(func(s *Counters) { s.LeaseLost += uint64(missing) }) //nolint:gosec // positive
		w.log.Trouble(ctx, "lease lost: this relay no longer holds these events", "events", missing)
	}
	w.reportFailed(ctx, b, settled.Failed)
	for _, it := range b.items {
		if it.state == decided {
			it.set(recorded)
			w.bytes.Add(-it.free())
		}
	}
	b.pauses = nil
	return true
}

// settlement is what is to be written about a batch.
func (w *worker) settlement(b *batch) store.Settlement {
	// A silent trial event makes a pause longer once: when its topic pauses, and not with its answer. A
	// session that answers one by one pauses no silent topic.
	isLonger := w.trials && (!b.slow || len(b.pauses) > 0 || w.oneByOne)
	s := store.Settlement{
		Token: b.token, End: b.open() == 0, Trial: isLonger, Paused: map[string]string{},
		GiveUp: w.config.GiveUp, FirstPause: w.config.firstTopicPause(), LongestPause: w.config.LongestTopicPause,
	}
	resumed, again := map[string]bool{}, map[string]bool{}
	for _, topic := range b.pauses {
		s.Paused[topic] = "no answer for " + w.config.SlowAfter.String()
	}
	for _, it := range b.items {
		if it.state == sent && slices.Contains(b.pauses, it.event.PauseName()) {
			s.Halted = append(s.Halted, it.event.ID)
		}
		if it.state != decided {
			continue
		}
		v, topic := it.verdict, it.event.PauseName()
		switch {
		case v.published:
			s.Published = append(s.Published, it.event)
		case !v.released:
			s.Failures = append(s.Failures, v.failure)
		}
		if v.pause || v.failure.Halt { // whoever halts an event writes the pause
			s.Paused[topic] = v.failure.Reason
		}
		again[topic] = w.trials && (v.released || v.failure.Final) // its destination has said nothing about the topic
		if v.resume && !resumed[topic] && !w.topics.isPaused(topic) {
			resumed[topic] = true
			s.Resumed = append(s.Resumed, topic)
		}
	}
	for topic, isAgain := range again {
		if _, paused := s.Paused[topic]; isAgain && !paused {
			s.TrialAgain = append(s.TrialAgain, topic)
		}
	}
	return s
}

// write returns nil if the statement has failed. Then the same is written again later.
func (w *worker) write(ctx context.Context, s store.Settlement) *store.Settled {
	var done store.Settled
	s.Durable = w.config.DurableMarks
	began := time.Now()
	ok := w.execute(ctx, w.lastCall, "cannot record what was decided, trying again", func(ctx context.Context) (err error) {
		done, err = w.events.Settle(ctx, s)
		return err
	})
	if !ok {
		return nil
	}
	w.counters.count(func(stats *Counters) {
		if len(s.Published) > 0 {
			stats.Marks.add(time.Since(began))
		}
		for _, failure := range s.Failures {
			if _, failed := done.Failed[failure.ID]; (failure.Counts || failure.Code == store.CodeNoAnswer) && !failed {
				stats.Retries++
			}
		}
	})
	if w.config.OnPublished != nil && len(s.Published) > 0 {
		w.config.OnPublished(w.lastCall, s.Published) //nolint:contextcheck // as for a statement
	}
	if len(s.Paused) > 0 {
		signal(w.tryTopics)
	}
	if len(s.TrialAgain) > 0 {
		w.notBefore = earlier(w.notBefore, time.Now().Add(trialPause))
	}
	w.due = true // the later events of the aggregates may be due
	if w.trials {
		w.Wake() // and those of a topic whose pause has ended
	}
	return &done
}

// reportFailed reports the events that have failed.
func (w *worker) reportFailed(ctx context.Context, b *batch, failed map[uuid.UUID]time.Time) {
	for _, it := range b.items {
		if _, ok := failed[it.event.ID]; !ok {
			continue
		}
		failure := it.verdict.failure
		w.counters.count(func(s *Counters) {
			s.Failed++
			if failure.Counts {
				s.RetryExhaustions++
			}
		})
		w.log.ErrorContext(ctx, "event failed", "message_id", failure.ID, "failure_code", failure.Code, "error", failure.Reason)
		if w.config.OnFailed != nil {
			w.config.OnFailed(w.lastCall, it.event, failure.Reason) //nolint:contextcheck // as for a statement
		}
	}
}

// recoveryPause is how long a worker whose session answers one by one claims nothing after a failure
// of the database, so that others can mark what they have sent. Their leases may have ended.
const recoveryPause = 2 * time.Second

// statementTimeout bounds the first attempt. Each further attempt has more time, up to 15 s, so
// that a database that is only slow can finish one of them. Once ShutdownTimeout is over, a
// statement has lastStatementTimeout.
const (
	statementTimeout     = 5 * time.Second
	lastStatementTimeout = 2 * time.Second // from when the publisher closes, which may take one of them
)

// The pauses after a failure of the database. After its restart, each connection of the pool fails
// once.
const (
	firstRetryPause = 50 * time.Millisecond
	lastRetryPause  = time.Second
)

// execute executes a statement, also if ctx has ended: otherwise a claim that is committed would
// wait for the end of its lease. It reports whether the statement has succeeded.
func (w *worker) execute(ctx, until context.Context, trouble string, statement func(context.Context) error) bool {
	w.failures++ // set back below if it succeeds
	limited, cancel := context.WithTimeout(until, time.Duration(min(w.failures, 3))*statementTimeout)
	defer cancel()
	if err := statement(limited); err != nil {
		w.retryAt = time.Now().Add(min(firstRetryPause<<min(w.failures-1, 10), lastRetryPause))
		w.health.database.Store(&err)
		w.log.Trouble(ctx, trouble, "error", err)
		w.hold()
		return false
	}
	if w.failures > 1 && w.oneByOne {
		w.notBefore = time.Now().Add(recoveryPause)
	}
	w.failures, w.retryAt = 0, time.Time{}
	w.health.database.Store(nil)
	return true
}
