package relay

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// batch is the events of a claim, until each of them is recorded. It has a goroutine of its own.
type batch struct {
	policy
	sender   *sender
	database *database
	window   *window
	report   *reporter

	isTrial bool // its events stand for paused topics
	waited  int  // events that waited for an answer when it was sent, with its own
	lease   *lease
	read    time.Time // when the ages of the events were read
	answers answers
	silence chan struct{}   // the destination answers nothing: topics pause
	last    <-chan struct{} // closed when there is time for only one more statement
	ended   chan struct{}

	items   []*item
	count   [recorded + 1]int // of the items in each state
	sentAt  time.Time         // when the publisher began the last of them, or the destination last asked to wait
	first   time.Time         // when the first decision was made that is not recorded
	isLate  bool              // it has waited for so long that silent topics pause
	pauses  []string          // topics to pause, because nothing was taken
	isStuck bool              // it has decisions that could not be recorded
}

func (b *batch) add(it item) {
	it.batch = b
	b.items = append(b.items, &it)
	b.count[it.state]++
	b.window.bytes.Add(int64(len(it.event.Payload)))
}

// open is how many events of the batch have no verdict.
func (b *batch) open() int { return b.count[unsent] + b.count[sent] + b.count[slow] }

// send gives the events to the sender.
func (b *batch) send() {
	var items []*item
	for _, it := range b.items {
		switch {
		case it.state != unsent: // it is not to be sent
		case b.sender.isOneByOne && b.sender.unanswered.has(it.event.ID):
			v := b.verdict(it.event, publish.Result{Outcome: publish.Unknown, Err: publish.ErrOverdue}, b.isTrial)
			v.failure.Counts = false // the call that runs has counted
			b.decide(it, v)
			trace.SpanFromContext(it.trace).End()
		default:
			items = append(items, it)
		}
	}
	b.sender.send(b, items)
}

// run is the life of the batch: its events are answered or late, decided, and recorded.
func (b *batch) run() {
	defer b.end()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for b.count[recorded] < len(b.items) {
		b.window.set(b, b.places())
		timer.Reset(max(time.Until(b.next()), shortestWait))
		select {
		case <-b.answers.some:
			b.receive()
		case <-timer.C:
			b.expire(time.Now())
		case <-b.silence:
			b.receive()
			b.pauseSilent()
		case <-b.last:
			b.receive()
			b.record()
			return
		}
		if !time.Now().Before(b.recordAt()) {
			b.record()
		}
	}
}

// end frees what the batch holds.
func (b *batch) end() {
	for _, it := range b.items {
		b.window.bytes.Add(-it.free())
	}
	for _, a := range b.answers.redirect(b.sender.unanswered) {
		if a.item != nil {
			b.accept(a.item, a.result)
		}
	}
	b.setStuck(false)
	b.lease.release()
	b.window.remove(b)
	close(b.ended)
}

// next is when time has something to do.
func (b *batch) next() time.Time {
	next := time.Now().Add(b.config.PollInterval) // the destination may ask to wait
	return earlier(next, earlier(b.recordAt(), b.expiresAt()))
}

// places is what the batch has of the window.
func (b *batch) places() places {
	return places{waiting: b.count[unsent] + b.count[sent] + b.count[decided], slow: b.count[slow]}
}

// receive takes the answers that have come, and decides about each event.
func (b *batch) receive() {
	for _, a := range b.answers.take() {
		if a.begun == nil {
			b.accept(a.item, a.result)
			continue
		}
		if !b.sentAt.IsZero() {
			b.waited = 0 // not all were sent together
		}
		b.sentAt, b.isLate = a.at, false
		for _, it := range a.begun {
			if it.state == unsent {
				it.set(sent)
			}
		}
	}
}

// accept decides about an event by its answer. An answer that is late counts if it is a confirm.
func (b *batch) accept(it *item, result publish.Result) {
	if it.state == decided || it.state == recorded {
		if it.counts(result) {
			b.sender.unanswered.confirmed(it.event)
		}
		return
	}
	b.decide(it, b.verdict(it.event, result, b.isTrial))
	if b.open() == 0 && result.Outcome == publish.Confirmed {
		b.sender.pace.answered(b.sentAt, b.waited)
	}
	b.report.outcome(it, result, b.sender.ctx.Err() != nil)
}

func (b *batch) decide(it *item, v verdict) {
	if b.count[decided] == 0 {
		b.first = time.Now()
	}
	it.verdict = v
	it.set(decided)
}

// giveUp decides without an answer.
func (b *batch) giveUp(it *item, instead publish.Result) {
	b.sender.forget(it)
	b.accept(it, instead)
}

// recordAt is when the decisions are to be written: all of them at once, or SettleAfter after the
// first one.
func (b *batch) recordAt() time.Time {
	at := b.first.Add(b.config.SettleAfter)
	switch {
	case b.database.lastCall.Err() != nil:
		return never
	case len(b.pauses) > 0, b.open() == 0:
		at = time.Time{}
	case b.count[decided] == 0:
		return never
	}
	return later(at, b.database.notBefore())
}

// record writes what was decided. If it fails, the same is written again later.
func (b *batch) record() {
	crashpoint.At("relay.confirmed")
	s := b.settlement()
	settled := b.database.settle(s)
	if settled == nil {
		b.setStuck(b.count[decided] > 0)
		return
	}
	crashpoint.At("relay.marked")
	b.setStuck(false)
	b.report.settled(b, s, settled)
	for _, it := range b.items {
		if it.state == decided {
			it.set(recorded)
			b.window.bytes.Add(-it.free())
		}
	}
	b.pauses = nil
	b.window.tell(news{isDue: true, isPaused: len(s.Paused) > 0, isTriedAgain: len(s.TrialAgain) > 0})
}

// setStuck says that the batch cannot be recorded.
func (b *batch) setStuck(is bool) {
	if is != b.isStuck {
		b.isStuck = is
		b.database.caution.setStuck(is)
	}
}

// settlement is what is to be written.
func (b *batch) settlement() store.Settlement {
	// A silent trial event makes a pause longer once: when its topic pauses, and not with its answer.
	// A session that answers one by one pauses no silent topic.
	isLonger := b.isTrial && (!b.isLate || len(b.pauses) > 0 || b.sender.isOneByOne)
	s := store.Settlement{
		Token: b.lease.token, End: b.open() == 0, Trial: isLonger, Paused: map[string]string{},
		GiveUp: b.config.GiveUp, FirstPause: b.config.firstTopicPause(), LongestPause: b.config.LongestTopicPause,
	}
	resumed, again := map[string]bool{}, map[string]bool{}
	for _, topic := range b.pauses {
		s.Paused[topic] = "no answer for " + b.config.SlowAfter.String()
	}
	for _, it := range b.items {
		if it.state == slow && slices.Contains(b.pauses, it.event.PauseName()) {
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
		again[topic] = b.isTrial && (v.released || v.failure.Final) // its destination has said nothing about the topic
		if v.resume && !resumed[topic] && !b.topics.isPaused(topic) {
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
