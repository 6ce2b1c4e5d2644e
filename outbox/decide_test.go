package outbox

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
		probe  bool
		want   verdict
	}{
		"confirmed":          {publish.Result{Outcome: publish.Confirmed}, false, verdict{published: true}},
		"confirmed, a probe": {publish.Result{Outcome: publish.Confirmed}, true, verdict{published: true, resume: true}},
		"returned":           {publish.Result{Outcome: publish.Returned, Err: reason}, false, verdict{pause: true, failure: store.Failure{Halt: true, Tried: true, Code: "unroutable"}}},
		"busy":               {publish.Result{Outcome: publish.NotSent, Err: publish.ErrBusy}, false, verdict{pause: true, failure: store.Failure{Halt: true, Code: "refused"}}},
		"refused":            {publish.Result{Outcome: publish.Refused, Err: reason}, false, verdict{failure: store.Failure{Counts: true, Code: "refused"}}},
		"refused, a probe":   {publish.Result{Outcome: publish.Refused, Err: reason}, true, verdict{pause: true, failure: store.Failure{Counts: true, Code: "refused"}}},
		"no answer":          {publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout}, false, verdict{failure: store.Failure{Tried: true, Code: "no_answer"}}},
		"lost":               {publish.Result{Outcome: publish.Unknown, Err: reason}, false, verdict{unknown: true, failure: store.Failure{Code: "refused"}}},
		"not sent":           {publish.Result{Outcome: publish.NotSent, Err: publish.ErrNotSent}, false, verdict{unknown: true, failure: store.Failure{Code: "refused"}}},
		"closed over it":     {publish.Result{Outcome: publish.Refused, Err: publish.ErrClosed}, false, verdict{failure: store.Failure{Counts: true, Code: "session_closed"}}},
		"too large":          {publish.Result{Outcome: publish.Invalid, Err: publish.ErrTooLarge}, false, verdict{failure: store.Failure{Final: true, Code: "too_large"}}},
		"a bad key":          {publish.Result{Outcome: publish.Invalid, Err: publish.ErrBadTopic}, false, verdict{failure: store.Failure{Final: true, Code: "bad_topic"}}},
		"broken headers":     {publish.Result{Outcome: publish.Invalid, Err: publish.ErrBadHeaders}, false, verdict{failure: store.Failure{Final: true, Code: "bad_headers"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := store.Event{ID: uuid.New(), Topic: "a", RetryCount: 3}
			r := testRelay(nil)
			r.topics.take("another", false)
			got := r.decide(e, test.result, test.probe)
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
		c := RelayConfig{
			RetryBase: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			RetryCap:  time.Duration(rapid.Int64Range(int64(time.Hour), int64(24*time.Hour)).Draw(t, "cap")),
		}
		attempts := rapid.IntRange(0, 1<<20).Draw(t, "attempts")
		if d := c.retryDelay(attempts); d < c.RetryBase/2 || d > c.RetryCap {
			t.Fatalf("attempt %d waits %s, want %s to %s", attempts, d, c.RetryBase/2, c.RetryCap)
		}
	})
}
