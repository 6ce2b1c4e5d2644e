package relay

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// TestP4ATopicWithoutAnswersPausesAndTheOthersGoOn: its events take no place in the window after a
// second, and another connection takes the place of the one that answers nothing. The others go on
// also if the pause cannot be written.
func TestP4ATopicWithoutAnswersPausesAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	for _, isLocked := range []bool{false, true} {
		inVirtualTime(t, func(v *virtual) {
			v.outbox.onSettle = func(_ context.Context, s store.Settlement) error {
				if isLocked && len(s.Paused) > 0 {
					return errors.New("locked")
				}
				return nil
			}
			v.broker.answers = only("good")
			v.outbox.append("silent", testConfig.Window)
			v.run()
			v.outbox.append("good", 10)
			v.sleep(2 * time.Second)
			if v.want(10, "published"); isLocked {
				return
			}
			v.want(testConfig.Window, "halted")
			if _, paused := v.outbox.paused["silent"]; !paused || v.broker.opened < 2 {
				t.Errorf("%d connections, paused %v", v.broker.opened, v.outbox.paused)
			}
			v.broker.answer(taken) // late, and still good
			v.sleep(time.Second)
			v.want(10+testConfig.Window, "published")
		})
	}
}

// TestP4ASlowReturnMakesThePauseLonger: otherwise the next probe is the one that is for relays that
// have died, 10 s later.
func TestP4ASlowReturnMakesThePauseLonger(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		var calls atomic.Int32
		v.config = emails()
		v.to = publish.Func(func(ctx context.Context, _ publish.Message) error {
			calls.Add(1)
			Wait(ctx, 2*v.relay.config.SlowAfter)
			return publish.ErrReturned
		}, publish.FuncConfig{OneDestination: true, Calls: 1})
		v.outbox.append("a", 20)
		v.run()
		v.sleep(8 * time.Second) // the window is returned
		before := calls.Load()
		v.sleep(8 * time.Second)
		if n := calls.Load() - before; n < 2 {
			t.Errorf("%d probes in 8 s, each of 2 s, with pauses of half a second", n)
		}
	})
}

// TestP4OneSilentTopicDelaysTheOthersOnce: what was sent with it, on the same connection, for at
// most ConfirmTimeout. Later ones do not wait.
func TestP4OneSilentTopicDelaysTheOthersOnce(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		good := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
		v.config.Window = 100
		v.broker.stalls = true
		v.broker.answers = func(messages []publish.Message) []publish.Result {
			results := answerAll(publish.Confirmed)(messages)
			if i := slices.IndexFunc(messages, func(m publish.Message) bool { return m.Topic == "silent" }); i >= 0 {
				results[i].Outcome = silent
			}
			return results
		}
		v.run()
		const steps, delay, first, firstDelay = 1200, 5, 3, 25 // of half a second
		appended := make([][]uuid.UUID, steps)
		for step := range steps {
			v.outbox.append("silent", 1)
			for _, topic := range good {
				appended[step] = append(appended[step], v.outbox.append(topic, 1)...)
			}
			v.relay.Wake()
			v.sleep(time.Second / 2)
			var waited []uuid.UUID
			if step >= firstDelay {
				waited = append(waited, appended[step-firstDelay]...)
			}
			if step >= first+delay {
				waited = append(waited, appended[step-delay]...)
			}
			for _, id := range waited {
				if b := v.outbox.became[id]; b == "" || b == "halted" {
					t.Errorf("step %d: an event has waited for too long, and is not free for another connection", step)
					return
				}
			}
		}
	})
}

// TestP4AnAnswerAfterTheTimeoutStillCounts although the event was rescheduled.
func TestP4AnAnswerAfterTheTimeoutStillCounts(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.broker.answers = only("good")
		v.outbox.append("a", 1)
		v.run()
		const others = 22 // so that the connection is never silent for a second
		for range others {
			v.sleep(time.Second / 2)
			v.outbox.append("good", 1)
			v.relay.Wake()
		}
		v.want(1, "later")
		v.broker.answer(taken)
		v.sleep(time.Second)
		v.want(others+1, "published")
	})
}

// TestP4AProbeThatIsInvalidDelaysNothing: the next one is tried at once, and not after the ten
// seconds in which a relay would be dead. The one that is taken ends the pause.
func TestP4AProbeThatIsInvalidDelaysNothing(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		outcomes := []publish.Outcome{publish.Returned, publish.Invalid, publish.Confirmed}
		v.broker.answers = func(messages []publish.Message) []publish.Result {
			next := outcomes[0]
			outcomes = outcomes[1:]
			return answerAll(next)(messages)
		}
		v.outbox.append("a", 1)
		v.run()
		v.outbox.append("a", 2)
		v.sleep(time.Second)
		v.want(1, "failed")
		if v.want(1, "published"); len(v.outbox.paused) != 0 {
			t.Errorf("paused %v", v.outbox.paused)
		}
	})
}

// TestP4AProbeWithoutAnswerHoldsNoOtherProbe: a new publisher tries one topic, and more only after
// an answer.
func TestP4AProbeWithoutAnswerHoldsNoOtherProbe(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[publish.Outcome][]int{silent: {1, 1}, publish.Unknown: {1, 1}, publish.Confirmed: {1, 2}} {
		inVirtualTime(t, func(v *virtual) {
			v.broker.answers = answerAll(outcome)
			for _, topic := range []string{"a", "b", "c"} {
				v.outbox.paused[topic] = time.Now()
				v.outbox.append(topic, 1)
			}
			v.run()
			v.sleep(v.relay.config.SlowAfter + 2*probePause)
			if got := v.outbox.tried; len(got) < 2 || !slices.Equal(got[:2], want) {
				t.Errorf("outcome %v: claims of probes try %v topics, want first %v", outcome, got, want)
			}
		})
	}
	inVirtualTime(t, func(v *virtual) { // a mail server, which answers one by one
		v.callEach(functions{"a": func(context.Context) error { return errors.New("refused") }})
		v.outbox.paused["a"] = time.Now()
		v.outbox.append("a", 20)
		v.run()
		v.sleep(2 * probePause)
		if got := v.outbox.tried; len(got) < 2 || got[0] != 1 || got[1] != 2 {
			t.Errorf("claims of probes try %v e-mails, want first 1 and 2", got)
		}
	})
}

// TestP4ALateAnswerIsOfItsOwnPublisher: an event that is lost alone, on the next one, is the cause.
func TestP4ALateAnswerIsOfItsOwnPublisher(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.config.Workers = 1
		v.broker.answers = func(messages []publish.Message) []publish.Result {
			return answerAll(map[string]publish.Outcome{"silent": silent, "good": publish.Confirmed, "bad": publish.Unknown}[messages[0].Topic])(messages)
		}
		v.outbox.append("silent", 1)
		v.run()
		for range 25 { // so that the connection is never silent
			v.outbox.append("good", 1)
			v.relay.Wake()
			v.sleep(v.relay.config.ConfirmTimeout / 20)
		}
		bad := v.outbox.append("bad", 1)[0]
		v.relay.Wake()
		v.sleep(time.Second / 2)
		v.want(2, "later")
		if n := v.broker.copies[bad.String()]; n != 2 {
			t.Errorf("it was sent %d times, want twice: with the silent one, which may have ended the publisher, and alone", n)
		}
	})
}

// TestP4AnEventThatHasEndedASessionIsSentAlone: no other event is lost with it. It waits for a silent
// one, but no longer than ConfirmTimeout.
func TestP4AnEventThatHasEndedASessionIsSentAlone(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.broker.answers = func(messages []publish.Message) []publish.Result {
			if slices.ContainsFunc(messages, func(m publish.Message) bool { return m.Topic == "bad" }) {
				return answerAll(publish.Unknown)(messages)
			}
			return only("good")(messages)
		}
		bad, good := v.outbox.append("bad", 1)[0], v.outbox.append("good", 1)[0]
		v.outbox.append("silent", 1)
		v.outbox.pending[0].EndedSession = true
		v.run()
		v.sleep(time.Second / 2)
		v.want(1, "published")
		v.sleep(testConfig.ConfirmTimeout + 2*time.Second)
		if n, of := v.broker.copies[good.String()], v.broker.copies[bad.String()]; n != 1 || of == 0 {
			t.Errorf("the good one was sent %d times, and the other one %d times", n, of)
		}
	})
}
