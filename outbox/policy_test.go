package outbox

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// slowBroker answers when the test says so. Its sessions share what has no answer.
type slowBroker struct {
	mu       sync.Mutex
	opened   int // publishers
	sent     []publish.Message
	waiting  []func(publish.Result)
	blocked  bool
	atOnce   map[string]publish.Result // the answers by topic that do not wait
	together []int                     // how many messages were sent at a time
}

func (b *slowBroker) NewPublisher(int) (publish.Publisher, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	return &slowPublisher{b: b}, nil
}

func (b *slowBroker) Blocked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blocked
}

func (b *slowBroker) block(blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocked = blocked
}

// answer answers everything that waits.
func (b *slowBroker) answer(r publish.Result) {
	b.mu.Lock()
	waiting := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	for _, answer := range waiting {
		answer(r)
	}
}

// answerOne answers the first that waits.
func (b *slowBroker) answerOne(r publish.Result) {
	b.mu.Lock()
	first := b.waiting[0]
	b.waiting = b.waiting[1:]
	b.mu.Unlock()
	first(r)
}

// topicsSent are those of the messages since the last call.
func (b *slowBroker) topicsSent() (topics []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.sent {
		topics = append(topics, m.Topic)
	}
	b.sent = nil
	return topics
}

type slowPublisher struct {
	b    *slowBroker
	mine []func(publish.Result)
}

func (p *slowPublisher) Publish(_ context.Context, messages []publish.Message, answer func(int, publish.Result)) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.b.sent = append(p.b.sent, messages...)
	p.b.together = append(p.b.together, len(messages))
	for i, m := range messages {
		if r, ok := p.b.atOnce[m.Topic]; ok {
			answer(i, r)
			continue
		}
		var once sync.Once
		give := func(r publish.Result) { once.Do(func() { answer(i, r) }) }
		p.b.waiting, p.mine = append(p.b.waiting, give), append(p.mine, give)
	}
}

func (p *slowPublisher) Close() {
	p.b.mu.Lock()
	mine := p.mine
	p.mine = nil
	p.b.mu.Unlock()
	for _, give := range mine {
		give(unknown)
	}
}

var taken = publish.Result{Outcome: publish.Confirmed}

// TestP4AnAnswerAfterTheTimeoutStillCounts although the event was rescheduled.
func TestP4AnAnswerAfterTheTimeoutStillCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		broker := &slowBroker{atOnce: map[string]publish.Result{"good": taken}}
		r := testRelay(events)
		stop := start(t, r, broker)
		for range 11 {
			time.Sleep(time.Second / 2)
			events.append("good", 1)
			r.Wake()
			time.Sleep(time.Second / 2)
		}
		if n := events.count("later"); n != 1 || events.failures[0].Counts {
			t.Errorf("%d rescheduled: %+v", n, events.failures)
		}
		broker.answer(taken)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := events.count("published"); n != 12 {
			t.Errorf("%d published, want 12", n)
		}
		stop()
	})
}

// TestP4AProbeEndsThePauseOfItsTopic, and the wait for it does not stop the workers.
func TestP4AProbeEndsThePauseOfItsTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		events.append("unbound", 1)
		broker := &slowBroker{atOnce: map[string]publish.Result{"unbound": {Outcome: publish.Returned, Err: publish.ErrReturned}}}
		stop := start(t, testRelay(events), broker)
		synctest.Wait()
		if f := events.failures; len(f) != 1 || !f[0].Halt || f[0].Counts || events.paused["unbound"] == "" {
			t.Fatalf("failures %+v, paused %v", f, events.paused)
		}
		events.mu.Lock()
		due := 0.5
		events.nextProbe, events.probes = &due, []store.Event{{ID: uuid.New(), Topic: "unbound"}}
		events.mu.Unlock()
		broker.mu.Lock()
		broker.atOnce["unbound"] = taken
		broker.mu.Unlock()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(events.paused) != 0 || events.count("published") != 1 {
			t.Errorf("paused %v, %d published", events.paused, events.count("published"))
		}
		stop()
	})
}

// TestP4ATopicPausesWhenTwoOfItsEventsAreRefused, and not when one is refused again and again.
func TestP4ATopicPausesWhenTwoOfItsEventsAreRefused(t *testing.T) {
	t.Parallel()
	r := testRelay(nil)
	refusal := publish.Result{Outcome: publish.Refused, Err: publish.ErrInvalid}
	bad, other := store.Event{ID: uuid.New(), Topic: "a"}, store.Event{ID: uuid.New(), Topic: "a"}
	for range 3 {
		if r.decide(bad, refusal, false).pause {
			t.Error("one event pauses its topic")
		}
	}
	if !r.decide(other, refusal, false).pause || !r.topics.isPaused("a") {
		t.Error("two events do not pause their topic")
	}
	if v := r.decide(other, taken, false); !v.resume || r.topics.isPaused("a") {
		t.Error("a confirm does not resume the topic")
	}
	if r.decide(bad, refusal, false).pause {
		t.Error("after a confirm, one event pauses its topic")
	}
}

// closingBroker closes the publisher when the bad message is sent.
type closingBroker struct {
	bad      string // the id
	together []int
}

func (b *closingBroker) publish(messages []publish.Message) []publish.Result {
	b.together = append(b.together, len(messages))
	results := slices.Repeat([]publish.Result{taken}, len(messages))
	if slices.ContainsFunc(messages, func(m publish.Message) bool { return m.ID == b.bad }) {
		for i := range results {
			results[i] = publish.Result{Outcome: publish.Unknown, Err: publish.ErrClosed}
		}
	}
	return results
}

// TestP4TheEventThatClosesThePublisherIsFound: the others are sent again in groups, and only that
// one is refused.
func TestP4TheEventThatClosesThePublisherIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := testConfig
		config.Window = 10
		events := newFakeOutbox(0)
		ids := events.append("a", 10)
		broker := &closingBroker{bad: ids[4].String()}
		events.onClaim = func() { // what is released is due again
			for _, id := range ids {
				if events.became[id] == "released" {
					delete(events.became, id)
					events.pending = append(events.pending, store.Event{ID: id, Topic: "a"})
				}
			}
		}
		stop := start(t, relayWith(config, events), fakeBroker(broker.publish))
		time.Sleep(700 * time.Millisecond) // no step waits for a timer of a second
		synctest.Wait()
		stop()
		if n := events.count("published"); n != 9 || events.became[ids[4]] != "later" {
			t.Errorf("%d published, the bad one became %q", n, events.became[ids[4]])
		}
		if n := len(broker.together); n > 15 || broker.together[0] != 10 {
			t.Errorf("sent together %v, want at most 15 times", broker.together)
		}
	})
}

// TestP4ALostConnectionCountsForNobody, however often connections are lost with many events.
func TestP4ALostConnectionCountsForNobody(t *testing.T) {
	t.Parallel()
	s, one, two := newSuspects(), uuid.New(), uuid.New()
	for range 10 {
		if s.add(one, false, false) || s.add(two, false, false) {
			t.Fatal("one of two is the cause")
		}
	}
	if !s.has(one) || !s.has(two) {
		t.Error("they are not sent alone")
	}
	s.remove(one)
	for i := range causeAfter {
		if cause := s.add(one, true, false); cause != (i == causeAfter-1) {
			t.Errorf("alone %d times: %t", i+1, cause)
		}
	}
}

// TestLeasesAreRenewedWhileEventsAreInHand.
func TestLeasesAreRenewedWhileEventsAreInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, broker := newFakeOutbox(1), &slowBroker{}
		stop := start(t, testRelay(events), broker)
		time.Sleep(5*time.Second + 1)
		broker.answer(taken)
		time.Sleep(5 * time.Second)
		stop()
		if n := len(events.renewed); n != 5 {
			t.Errorf("renewed %d times, want 5", n)
		}
	})
}

// TestNothingIsClaimedWhileTheDestinationBlocks, and the wait for answers does not go on meanwhile.
func TestNothingIsClaimedWhileTheDestinationBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, broker := newFakeOutbox(1), &slowBroker{}
		r := testRelay(events)
		stop := start(t, r, broker)
		synctest.Wait()
		broker.block(true)
		events.append("good", 10)
		time.Sleep(time.Hour)
		if n := len(broker.topicsSent()); n != 1 || len(events.failures) != 0 || len(events.paused) != 0 {
			t.Errorf("%d sent, failures %v, paused %v", n, events.failures, events.paused)
		}
		broker.block(false)
		time.Sleep(time.Second / 2)
		broker.answer(taken)
		time.Sleep(time.Second / 2)
		if n := len(broker.topicsSent()); n == 0 {
			t.Error("nothing is sent after the block")
		}
		stop()
	})
}
