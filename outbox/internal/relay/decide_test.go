package relay

import (
	"cmp"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// SEED chooses what the random tests do.
func init() { _ = flag.Set("rapid.seed", cmp.Or(os.Getenv("SEED"), "1")) }

// TestP4DecideForEachOutcome is the table of the comment of Relay.
func TestP4DecideForEachOutcome(t *testing.T) {
	t.Parallel()
	reason := errors.New("the reason")
	tests := map[string]struct {
		result publish.Result
		is     string // trial, paused, or others taken since it was lost
		want   verdict
	}{
		"confirmed":         {publish.Result{Outcome: publish.Confirmed}, "", verdict{published: true}},
		"confirmed, trial":  {publish.Result{Outcome: publish.Confirmed}, "trial", verdict{published: true, resume: true}},
		"returned":          {publish.Result{Outcome: publish.Returned, Err: reason}, "", verdict{pause: true, failure: store.Failure{Halt: true, Tried: true, Code: "unroutable"}}},
		"busy":              {publish.Result{Outcome: publish.NotSent, Err: publish.ErrBusy}, "", verdict{pause: true, failure: store.Failure{Halt: true, Code: "refused"}}},
		"refused":           {publish.Result{Outcome: publish.Refused, Err: reason}, "", verdict{failure: store.Failure{Counts: true, Code: "refused"}}},
		"refused, trial":    {publish.Result{Outcome: publish.Refused, Err: reason}, "trial", verdict{pause: true, failure: store.Failure{Counts: true, Code: "refused"}}},
		"no answer":         {publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout}, "", verdict{failure: store.Failure{Tried: true, Code: "no_answer"}}},
		"no answer, paused": {publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout}, "paused", verdict{failure: store.Failure{Halt: true, Tried: true, Code: "no_answer"}}},
		"lost":              {publish.Result{Outcome: publish.Unknown, Err: reason}, "", verdict{released: true, failure: store.Failure{Code: "refused"}}},
		"not sent":          {publish.Result{Outcome: publish.NotSent, Err: publish.ErrNotSent}, "", verdict{released: true, failure: store.Failure{Code: "refused"}}},
		"closed over it":    {publish.Result{Outcome: publish.Refused, Err: publish.ErrClosed}, "", verdict{failure: store.Failure{Counts: true, Code: "session_closed"}}},
		"lost, alone":       {publish.Result{Outcome: publish.Unknown, Err: errAlone}, "", verdict{failure: store.Failure{Code: "session_closed"}}},
		"lost, alone again": {publish.Result{Outcome: publish.Unknown, Err: errAlone}, "others taken", verdict{failure: store.Failure{Counts: true, Code: "session_closed"}}},
		"too large":         {publish.Result{Outcome: publish.Invalid, Err: publish.ErrTooLarge}, "", verdict{failure: store.Failure{Final: true, Code: "too_large"}}},
		"a bad key":         {publish.Result{Outcome: publish.Invalid, Err: publish.ErrBadTopic}, "", verdict{failure: store.Failure{Final: true, Code: "bad_topic"}}},
		"broken headers":    {publish.Result{Outcome: publish.Invalid, Err: publish.ErrBadHeaders}, "", verdict{failure: store.Failure{Final: true, Code: "bad_headers"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := store.Event{ID: uuid.New(), Topic: "a", RetryCount: 3}
			r := policyOf(testConfig)
			r.topics.take("another", false)
			for range 3 {
				r.topics.lostAlone(e.ID)
			}
			if test.is == "others taken" {
				r.topics.take("another", false)
			}
			if test.is == "paused" {
				r.topics.pause("a")
			}
			got := r.verdict(e, test.result, test.is == "trial")
			if d := got.failure.Delay; d < 4*time.Second || d > 8*time.Second {
				t.Errorf("in %s, want 4 to 8 s", d)
			}
			got.failure.ID, got.failure.Delay, got.failure.Reason, test.want.failure.Code = uuid.Nil, 0, "", cmp.Or(test.want.failure.Code, got.failure.Code)
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestRetryDelayStaysBetweenBaseAndCap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			RetryBase: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			RetryCap:  time.Duration(rapid.Int64Range(int64(time.Hour), int64(24*time.Hour)).Draw(t, "cap")),
		}
		attempts := rapid.IntRange(0, 1<<20).Draw(t, "attempts")
		if d := c.retryDelay(attempts); d < c.RetryBase/2 || d > c.RetryCap {
			t.Fatalf("attempt %d waits %s, want %s to %s", attempts, d, c.RetryBase/2, c.RetryCap)
		}
	})
}

// TestP6AnEventWithoutAnAnswerWaitsLong: each further try may be one more e-mail.
func TestP6AnEventWithoutAnAnswerWaitsLong(t *testing.T) {
	t.Parallel()
	r := policyOf(emails())
	for tried, want := range []time.Duration{time.Minute, time.Hour, time.Hour} {
		e := store.Event{ID: uuid.New(), Topic: "a", RetryCount: tried}
		r.topics.pause(e.Topic)
		v := r.verdict(e, publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout}, false)
		if v.released || v.failure.Halt || !v.failure.Counts || v.failure.Delay != want {
			t.Errorf("after %d tries: %+v", tried, v)
		}
	}
}

// TestP4ATopicPausesWhenTwoOfItsEventsAreRefused, and not when one is refused again and again.
func TestP4ATopicPausesWhenTwoOfItsEventsAreRefused(t *testing.T) {
	t.Parallel()
	r := policyOf(testConfig)
	refusal := publish.Result{Outcome: publish.Refused, Err: publish.ErrInvalid}
	bad, other := store.Event{ID: uuid.New(), Topic: "a"}, store.Event{ID: uuid.New(), Topic: "a"}
	for range 3 {
		if r.verdict(bad, refusal, false).pause {
			t.Error("one event pauses its topic")
		}
	}
	if !r.verdict(other, refusal, false).pause || !r.topics.isPaused("a") {
		t.Error("two events do not pause their topic")
	}
	if v := r.verdict(other, taken, false); !v.resume || r.topics.isPaused("a") {
		t.Error("a confirm does not resume the topic")
	}
	if r.verdict(bad, refusal, false).pause {
		t.Error("after a confirm, one event pauses its topic")
	}
}

// TestATopicIsTriedAfterItsFirstPause, and not before.
func TestATopicIsTriedAfterItsFirstPause(t *testing.T) {
	t.Parallel()
	for longest, first := range map[time.Duration]time.Duration{10 * time.Second: time.Second / 2, 30 * time.Second: time.Second} {
		inVirtualTime(t, func(v *virtual) {
			v.config.LongestTopicPause = longest
			v.broker.answers = answerAll(publish.Refused)
			v.outbox.append("a", 10)
			v.run()
			v.sleep(first - time.Millisecond)
			before := v.broker.sent()
			v.sleep(trialPause)
			if n := v.broker.sent(); n != before+1 {
				t.Errorf("after %s, %d events were sent, and then %d, want one more", first, before, n)
			}
		})
	}
}

// TestTheMemoryOfTopicsIsBounded, also if all of them are paused.
func TestTheMemoryOfTopicsIsBounded(t *testing.T) {
	t.Parallel()
	topics := newTopics()
	for range 2 * maxTopics {
		topics.pause(uuid.NewString())
	}
	if n := len(topics.all); n > maxTopics {
		t.Errorf("%d topics are remembered", n)
	}
}
