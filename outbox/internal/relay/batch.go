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
	config   *Config
	topics   *topics
	sender   *sender
	database *database
	window   *window
	report   *reporter
	late     *late

	isProbe bool // its events stand for paused topics
	waited  int  // events that waited for an answer when it began, with its own
	lease   *lease
	began   time.Time
	answers answers
	silence chan struct{}   // the destination answers nothing: topics pause
	last    <-chan struct{} // closed when there is time for only one more statement
	ended   chan struct{}

	items   []*item
	count   [recorded + 1]int // of the items in each state
	sentAt  time.Time         // when the publisher began the last of them, or the destination last asked to wait
	first   time.Time         // when the first decision was made that is not recorded
	isSlow  bool              // it has waited for so long that silent topics have paused
	pauses  []string          // topics to pause, because nothing was taken
	isStuck bool              // it has decisions that could not be recorded
}

func (b *batch) add(it item) {
	it.batch = b
	b.items = append(b.items, &it)
	b.count[it.state]++
	b.window.bytes.Add(int64(len(it.event.Payload)))
}

// open is how many events of the batch are not decided.
func (b *batch) open() int { return b.count[unsent] + b.count[sent] + b.count[slow] }

// send gives the events to the sender.
func (b *batch) send() {
	var items []*item
	for _, it := range b.items {
		switch {
		case it.state != unsent: // it is not to be sent
		case b.sender.isOneByOne && b.sender.unanswered.has(it.event.ID):
			d := b.config.decide(it.event, noAnswer, publish.ErrOverdue, past{isProbe: b.isProbe})
			d.failure.Counts = false // the call that runs has counted
			b.decide(it, d)
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
	for _, a := range b.answers.redirect(b.late) {
		if a.item != nil && a.item.counts(a.outcome) {
			b.late.add(a.item.event)
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
			b.accept(a.item, a.outcome, a.err)
			continue
		}
		b.sentAt, b.isSlow = a.at, false
		for _, it := range a.begun {
			if it.state == unsent {
				it.set(sent)
			}
		}
	}
}

// accept decides about an event by its answer. An answer that is late counts if it is a confirm.
func (b *batch) accept(it *item, o outcome, err error) {
	if it.state == decided || it.state == recorded {
		if it.counts(o) {
			b.late.add(it.event)
		}
		return
	}
	d := b.config.decide(it.event, o, err, b.topics.note(it.event, o, b.isProbe))
	if d.topic == paused {
		b.topics.pause(it.event.PauseName())
	}
	b.decide(it, d)
	if isAnswer := o == confirmed || o == refused || o == returned; isAnswer && b.open() == 0 {
		b.window.pace.answered(b.began, b.waited)
	}
	b.report.outcome(it, o, err, b.sender.ctx.Err() != nil)
}

func (b *batch) decide(it *item, d decision) {
	if b.count[decided] == 0 {
		b.first = time.Now()
	}
	it.decision = d
	it.set(decided)
}

// giveUp decides without an answer.
func (b *batch) giveUp(it *item) {
	b.sender.forget(it)
	b.accept(it, noAnswer, publish.ErrTimeout)
}

// recordAt is when the decisions are to be written: now if all events are decided, else SettleAfter
// after the first decision.
func (b *batch) recordAt() time.Time {
	at := b.first.Add(b.config.SettleAfter)
	switch {
	case b.database.by.statements.Err() != nil:
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
	b.window.tell(news{isDue: true, isPaused: len(s.Paused) > 0, isTriedAgain: len(s.ProbeAgain) > 0})
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
	s := store.Settlement{
		Token: b.lease.token, End: b.open() == 0, Paused: map[string]string{}, Longer: b.isProbe && len(b.pauses) > 0,
		GiveUp: b.config.GiveUp, FirstPause: b.config.firstTopicPause(), LongestPause: b.config.LongestTopicPause,
	}
	for _, topic := range b.pauses {
		s.Paused[topic] = "no answer for " + b.config.SlowAfter.String()
	}
	for _, it := range b.items {
		topic, d := it.event.PauseName(), it.decision
		if it.state == slow && slices.Contains(b.pauses, topic) {
			s.Halted = append(s.Halted, it.event.ID)
		}
		if it.state != decided {
			continue
		}
		switch d.event {
		case published:
			s.Published = append(s.Published, it.event)
		case delayed, halted, failed:
			s.Failures = append(s.Failures, d.failure)
		case retried, undecided:
		}
		switch {
		case d.topic == paused, d.event == halted: // no event is halted without the row of its topic
			s.Paused[topic] = d.failure.Reason
			s.Longer = s.Longer || b.isProbe && d.topic == paused
		case d.topic == resumed && !b.topics.isPaused(topic) && !slices.Contains(s.Resumed, topic):
			s.Resumed = append(s.Resumed, topic)
		case d.topic == untried && b.isProbe:
			s.ProbeAgain = append(s.ProbeAgain, topic)
		}
	}
	return s
}
