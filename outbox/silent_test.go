package outbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// TestP4ATopicWithoutAnswersPausesAndTheOthersGoOn: its events take no place in the window after a
// second, and another connection takes the place of the one that answers nothing.
func TestP4ATopicWithoutAnswersPausesAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		events.append("silent", 100)
		broker := &slowBroker{atOnce: map[string]publish.Result{"good": taken}}
		stop := start(t, testRelay(events), broker)
		synctest.Wait()
		events.append("good", 10)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := events.count("published"); n != 10 || events.paused["silent"] == "" || broker.opened != 2 {
			t.Errorf("%d published, %d connections, paused %v", n, broker.opened, events.paused)
		}
		if n := events.count("halted"); n != testConfig.Window {
			t.Errorf("%d are halted, want %d", n, testConfig.Window)
		}
		broker.answer(taken) // late, and still good
		time.Sleep(time.Second)
		synctest.Wait()
		if n := events.count("published"); n != 10+testConfig.Window {
			t.Errorf("%d published after the late answers", n)
		}
		stop()
	})
}

// refusesPauses is an outbox in which somebody has locked the table of topics.
type refusesPauses struct{ *fakeOutbox }

func (o refusesPauses) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	if len(s.Paused) > 0 {
		return store.Settled{}, errors.New("locked")
	}
	return o.fakeOutbox.Settle(ctx, s)
}

// TestP4APauseThatCannotBeWrittenDelaysNoOtherTopic: the only worker is replaced all the same.
func TestP4APauseThatCannotBeWrittenDelaysNoOtherTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		events.append("silent", testConfig.Window)
		stop := start(t, testRelay(refusesPauses{events}), &slowBroker{atOnce: map[string]publish.Result{"good": taken}})
		synctest.Wait()
		events.append("good", 10)
		time.Sleep(testConfig.ConfirmTimeout / 2)
		synctest.Wait()
		if n := events.count("published"); n != 10 {
			t.Errorf("%d published, want 10", n)
		}
		stop()
	})
}

// TestP4AnEventStaysHaltedAfterTheConfirmTimeout, because its topic is paused. It was not refused.
func TestP4AnEventStaysHaltedAfterTheConfirmTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		stop := start(t, testRelay(events), answerAll(silent))
		time.Sleep(testConfig.ConfirmTimeout + time.Second)
		stop()
		if f := events.failures; len(f) != 1 || !f[0].Halt || f[0].Counts || !f[0].Tried {
			t.Errorf("%+v", f)
		}
	})
}

// TestP4EventsOfAConnectionThatIsNotReadAreSentElsewhere: all three events wait on the first
// connection. A probe on another one is taken, so their topic works.
func TestP4EventsOfAConnectionThatIsNotReadAreSentElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, at, first := newFakeOutbox(3), 0.0, atomic.Bool{}
		events.nextProbe, events.probes = &at, []store.Event{{ID: uuid.New(), Topic: "order.created"}}
		stop := start(t, testRelay(events), fakeBroker(func(messages []publish.Message) []publish.Result {
			if first.CompareAndSwap(false, true) {
				return answerAll(silent)(messages)
			}
			return answerAll(publish.Confirmed)(messages)
		}))
		time.Sleep(testConfig.ConfirmTimeout / 2)
		stop()
		events.mu.Lock()
		defer events.mu.Unlock()
		for _, f := range events.failures {
			if f.Delay > 0 || f.Counts {
				t.Errorf("%+v, want an event that is due at once", f)
			}
		}
		if n := len(events.failures); n != 3 {
			t.Errorf("%d events are due again, want 3", n)
		}
	})
}

// TestP4AProbeWithoutAnswerHoldsNoOtherProbe: a new connection tries one topic, and more only after
// an answer.
func TestP4AProbeWithoutAnswerHoldsNoOtherProbe(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[publish.Outcome][]int{silent: {1, 1}, publish.Confirmed: {1, 2}} {
		synctest.Test(t, func(t *testing.T) {
			events, at := newFakeOutbox(0), 0.0
			events.nextProbe, events.paused["silent"] = &at, "no answer"
			for range 3 {
				events.probes = append(events.probes, store.Event{ID: uuid.New(), Topic: "a"})
			}
			stop := start(t, testRelay(events), answerAll(outcome))
			time.Sleep(testRelay(events).config.SlowAfter + 2*trialPause)
			stop()
			events.mu.Lock()
			defer events.mu.Unlock()
			if !slices.Equal(events.tried[:2], want) {
				t.Errorf("outcome %v: claims of probes try %v topics, want first %v", outcome, events.tried, want)
			}
		})
	}
}

// pausing is an outbox whose pauses end: then an event of the topic is tried.
type pausing struct {
	*fakeOutbox
	until map[string]time.Time
}

func (o *pausing) ClaimProbes(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error) {
	o.mu.Lock()
	for topic, until := range o.until {
		i := slices.IndexFunc(o.pending, func(e store.Event) bool { return e.Topic == topic })
		if i >= 0 && !time.Now().Before(until) {
			o.probes, o.pending = append(o.probes, o.pending[i]), slices.Delete(o.pending, i, i+1)
			o.until[topic] = time.Now().Add(11 * time.Second)
		}
	}
	o.mu.Unlock()
	return o.fakeOutbox.ClaimProbes(ctx, worker, limit, lease)
}

func (o *pausing) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	o.mu.Lock()
	for topic := range s.Paused {
		if _, paused := o.paused[topic]; !paused || s.Probe {
			o.until[topic] = time.Now().Add(firstTopicPause)
		}
	}
	for _, topic := range s.Resumed {
		delete(o.until, topic)
	}
	o.mu.Unlock()
	return o.fakeOutbox.Settle(ctx, s)
}

// stalling is a broker that reads no more from a connection once it has got a message of the topic
// silent on it. It answers nothing on that connection, until it is closed.
type stalling struct{}

func (stalling) NewPublisher(int) (publish.Publisher, error) { return &stallingPublisher{}, nil }
func (stalling) Blocked() bool                               { return false }

type stallingPublisher struct {
	mu       sync.Mutex
	unread   []func(publish.Result)
	isClosed bool
}

func (p *stallingPublisher) Publish(_ context.Context, messages []publish.Message, answer func(int, publish.Result)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range messages {
		switch {
		case p.isClosed:
			answer(i, publish.Result{Outcome: publish.NotSent, Err: publish.ErrNotSent})
		case m.Topic == "silent" || len(p.unread) > 0:
			p.unread = append(p.unread, func(r publish.Result) { answer(i, r) })
		default:
			answer(i, taken)
		}
	}
}

func (p *stallingPublisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, give := range p.unread {
		give(unknown)
	}
	p.unread, p.isClosed = nil, true
}

// TestP4OneSilentTopicDelaysTheOthersOnce: the others have been sent with it, on the same connection.
func TestP4OneSilentTopicDelaysTheOthersOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good, at := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}, 0.0
		events := &pausing{newFakeOutbox(0), map[string]time.Time{}}
		events.nextProbe = &at
		config := testConfig
		config.Window, config.Workers = 100, 2
		r := relayWith(config, events)
		stop := start(t, r, stalling{})
		const seconds, delay = 600, 2 // three seconds after an event was appended, it is published
		for second := range seconds {
			events.append("silent", 1)
			for _, topic := range good {
				events.append(topic, 1)
			}
			r.Wake()
			time.Sleep(time.Second)
			synctest.Wait()
			if n, want := events.count("published"), max(0, second-delay)*len(good); n < want {
				t.Errorf("after %d s %d are published, want %d", second, n, want)
				break
			}
		}
		if n := events.count("published"); n > seconds*len(good) {
			t.Errorf("%d are published", n)
		}
		stop()
	})
}
