package outbox

import (
	"context"
	"errors"
	"slices"
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
