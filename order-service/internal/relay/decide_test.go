package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

func TestDecideForEachOutcome(t *testing.T) {
	t.Parallel()
	reason := errors.New("the reason")
	tests := map[string]struct {
		result      rabbitmq.Result
		attempts    int // before this one
		age         float64
		became      string
		counts      bool
		code        string
		least, most time.Duration
	}{
		"confirmed":               {result: rabbitmq.Result{Outcome: rabbitmq.Confirmed}, became: "published"},
		"returned, young":         {result: rabbitmq.Result{Outcome: rabbitmq.Returned, Err: reason}, became: "later", code: "unroutable", least: time.Second, most: time.Second},
		"returned, a while ago":   {result: rabbitmq.Result{Outcome: rabbitmq.Returned, Err: reason}, age: 20, became: "later", code: "unroutable", least: 10 * time.Second, most: 10 * time.Second},
		"returned, days ago":      {result: rabbitmq.Result{Outcome: rabbitmq.Returned, Err: reason}, age: 1e6, became: "later", code: "unroutable", least: 15 * time.Second, most: 15 * time.Second},
		"refused, first":          {result: rabbitmq.Result{Outcome: rabbitmq.Refused, Err: reason}, became: "later", counts: true, code: "refused", least: time.Second / 2, most: time.Second},
		"refused, last but one":   {result: rabbitmq.Result{Outcome: rabbitmq.Refused, Err: reason}, attempts: 1, became: "later", counts: true, code: "refused", least: time.Second, most: 2 * time.Second},
		"refused, last":           {result: rabbitmq.Result{Outcome: rabbitmq.Refused, Err: reason}, attempts: 2, became: "failed", counts: true, code: "refused"},
		"unknown":                 {result: rabbitmq.Result{Outcome: rabbitmq.Unknown, Err: reason}, became: "released"},
		"unknown, however often":  {result: rabbitmq.Result{Outcome: rabbitmq.Unknown, Err: reason}, attempts: 99, became: "released"},
		"closed over it alone":    {result: rabbitmq.Result{Outcome: rabbitmq.Unknown, Err: rabbitmq.ErrChannelClosed}, became: "later", counts: true, code: "channel_closed", least: time.Second / 2, most: time.Second},
		"closed over it, last":    {result: rabbitmq.Result{Outcome: rabbitmq.Unknown, Err: rabbitmq.ErrChannelClosed}, attempts: 2, became: "failed", counts: true, code: "channel_closed"},
		"invalid: too large":      {result: rabbitmq.Result{Outcome: rabbitmq.Invalid, Err: rabbitmq.ErrTooLarge}, became: "failed", code: "too_large"},
		"invalid: a bad key":      {result: rabbitmq.Result{Outcome: rabbitmq.Invalid, Err: rabbitmq.ErrBadKey}, became: "failed", code: "bad_key"},
		"invalid: broken headers": {result: rabbitmq.Result{Outcome: rabbitmq.Invalid, Err: rabbitmq.ErrBadHeaders}, became: "failed", code: "bad_headers"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := outbox.Claimed{ID: uuid.New(), RetryCount: test.attempts, Age: test.age}
			s := testConfig.decide([]outbox.Claimed{e}, []rabbitmq.Result{test.result})
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
			if (s.unknown != nil) != (test.result.Outcome == rabbitmq.Unknown) {
				t.Errorf("the error that ends the session is %v", s.unknown)
			}
		})
	}
}

// becameOf returns what became of the only event of s.
func becameOf(s settlement) (string, outbox.Failure) {
	switch {
	case len(s.published) == 1:
		return "published", outbox.Failure{}
	case len(s.released) == 1:
		return "released", outbox.Failure{}
	case len(s.later) == 1:
		return "later", s.later[0]
	case len(s.failed) == 1:
		return "failed", s.failed[0]
	default:
		return "missing", outbox.Failure{}
	}
}

// TestP4OneOfABatchIsNotBlamedForTheChannel: nobody knows which event is the cause.
func TestP4OneOfABatchIsNotBlamedForTheChannel(t *testing.T) {
	t.Parallel()
	closed := rabbitmq.Result{Outcome: rabbitmq.Unknown, Err: rabbitmq.ErrChannelClosed}
	s := testConfig.decide([]outbox.Claimed{{ID: uuid.New()}, {ID: uuid.New()}}, []rabbitmq.Result{closed, closed})
	if len(s.released) != 2 {
		t.Errorf("%d released, want both", len(s.released))
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
