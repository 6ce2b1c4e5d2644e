package outbox

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

func TestDecideForEachOutcome(t *testing.T) {
	t.Parallel()
	reason := errors.New("the reason")
	tests := map[string]struct {
		result      publish.Result
		attempts    int // before this one
		age         float64
		delay       time.Duration // of a refusal that does not count
		became      string
		counts      bool
		code        string
		least, most time.Duration
	}{
		"confirmed":               {result: publish.Result{Outcome: publish.Confirmed}, became: "published"},
		"returned, young":         {result: publish.Result{Outcome: publish.Returned, Err: reason}, became: "later", code: "unroutable", least: time.Second, most: time.Second},
		"returned, a while ago":   {result: publish.Result{Outcome: publish.Returned, Err: reason}, age: 20, became: "later", code: "unroutable", least: 10 * time.Second, most: 10 * time.Second},
		"returned, days ago":      {result: publish.Result{Outcome: publish.Returned, Err: reason}, age: 1e6, became: "later", code: "unroutable", least: 15 * time.Second, most: 15 * time.Second},
		"refused, and others too": {result: publish.Result{Outcome: publish.Refused, Err: reason}, attempts: 2, delay: 7 * time.Second, became: "later", code: "refused", least: 7 * time.Second, most: 7 * time.Second},
		"refused, first":          {result: publish.Result{Outcome: publish.Refused, Err: reason}, became: "later", counts: true, code: "refused", least: time.Second / 2, most: time.Second},
		"refused, last but one":   {result: publish.Result{Outcome: publish.Refused, Err: reason}, attempts: 1, became: "later", counts: true, code: "refused", least: time.Second, most: 2 * time.Second},
		"refused, last":           {result: publish.Result{Outcome: publish.Refused, Err: reason}, attempts: 2, became: "failed", counts: true, code: "refused"},
		"unknown":                 {result: publish.Result{Outcome: publish.Unknown, Err: reason}, became: "released"},
		"unknown, however often":  {result: publish.Result{Outcome: publish.Unknown, Err: reason}, attempts: 99, became: "released"},
		"closed over it alone":    {result: publish.Result{Outcome: publish.Unknown, Err: publish.ErrSessionClosed}, became: "later", counts: true, code: "session_closed", least: time.Second / 2, most: time.Second},
		"closed over it, last":    {result: publish.Result{Outcome: publish.Unknown, Err: publish.ErrSessionClosed}, attempts: 2, became: "failed", counts: true, code: "session_closed"},
		"invalid: too large":      {result: publish.Result{Outcome: publish.Invalid, Err: publish.ErrTooLarge}, became: "failed", code: "too_large"},
		"invalid: a bad key":      {result: publish.Result{Outcome: publish.Invalid, Err: publish.ErrBadTopic}, became: "failed", code: "bad_topic"},
		"invalid: broken headers": {result: publish.Result{Outcome: publish.Invalid, Err: publish.ErrBadHeaders}, became: "failed", code: "bad_headers"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := store.Event{ID: uuid.New(), RetryCount: test.attempts, Age: test.age}
			refusals := map[uuid.UUID]verdict{e.ID: {counts: test.delay == 0, delay: test.delay}}
			s := testConfig.decide([]store.Event{e}, []publish.Result{test.result}, refusals)
			became, failure := becameOf(s)
			if became != test.became {
				t.Fatalf("%s, want %s", became, test.became)
			}
			if failure.Counts != test.counts || failure.Code != test.code {
				t.Errorf("counts %t with code %q, want %t with %q", failure.Counts, failure.Code, test.counts, test.code)
			}
			if became == "later" && (failure.Delay < test.least || failure.Delay > test.most) {
				t.Errorf("in %s, want %s to %s", failure.Delay, test.least, test.most)
			}
			if (s.unknown != nil) != (test.result.Outcome == publish.Unknown) {
				t.Errorf("the error that ends the session is %v", s.unknown)
			}
		})
	}
}

// becameOf returns what became of the only event of s.
func becameOf(s settlement) (string, store.Failure) {
	switch {
	case len(s.published) == 1:
		return "published", store.Failure{}
	case len(s.released) == 1:
		return "released", store.Failure{}
	case len(s.later) == 1:
		return "later", s.later[0]
	case len(s.failed) == 1:
		return "failed", s.failed[0]
	default:
		return "missing", store.Failure{}
	}
}

// TestP4OneOfABatchIsNotBlamedForTheChannel: nobody knows which event is the cause.
func TestP4OneOfABatchIsNotBlamedForTheChannel(t *testing.T) {
	t.Parallel()
	closed := publish.Result{Outcome: publish.Unknown, Err: publish.ErrSessionClosed}
	s := testConfig.decide([]store.Event{{ID: uuid.New()}, {ID: uuid.New()}}, []publish.Result{closed, closed}, nil)
	if len(s.released) != 2 {
		t.Errorf("%d released, want both", len(s.released))
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
