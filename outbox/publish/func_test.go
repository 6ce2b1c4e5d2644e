package publish_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

func publisherOf(t *testing.T, f func(context.Context, publish.Message) error) (p publish.Publisher) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	err := publish.Func(f).KeepConnected(ctx, func(_ context.Context, s publish.Session) (err error) {
		defer cancel()
		p, err = s.NewPublisher(10)
		if s.Blocked() {
			t.Error("a function blocks")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheErrorOfAFunctionIsTheOutcome(t *testing.T) {
	t.Parallel()
	answers := []struct {
		err  error
		want publish.Outcome
	}{
		{nil, publish.Confirmed},
		{errors.New("not now"), publish.Refused},
		{fmt.Errorf("%w: a comma", publish.ErrBadTopic), publish.Invalid},
		{fmt.Errorf("nobody: %w", publish.ErrReturned), publish.Returned},
		{context.DeadlineExceeded, publish.Refused}, // a timeout of the function's own
		{nil, publish.Confirmed},
	}
	calls := 0
	p := publisherOf(t, func(context.Context, publish.Message) error {
		calls++
		if calls > len(answers) {
			panic("one call too many")
		}
		return answers[calls-1].err
	})
	results := publish.All(p, make([]publish.Message, len(answers)+1), time.Minute)
	for i, a := range answers {
		if results[i].Outcome != a.want || !errors.Is(results[i].Err, a.err) {
			t.Errorf("message %d: %+v, want outcome %d with %v", i, results[i], a.want, a.err)
		}
	}
	if last := results[len(answers)]; last.Outcome != publish.Refused || last.Err == nil {
		t.Errorf("after a panic: %+v", last)
	}
}

func TestAFunctionThatTakesTooLongHoldsBackNoLaterMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		p := publisherOf(t, func(ctx context.Context, _ publish.Message) error {
			if calls++; calls == 2 {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		want := []error{nil, publish.ErrTimeout, nil}
		for i, r := range publish.All(p, make([]publish.Message, len(want)), time.Hour) {
			if !errors.Is(r.Err, want[i]) || (r.Outcome == publish.Unknown) != (want[i] != nil) {
				t.Errorf("message %d: %+v, want %v", i, r, want[i])
			}
		}
		if took := time.Since(began); took != publish.FuncTimeout {
			t.Errorf("it took %s", took)
		}
		p.Close()
	})
}

func TestAFunctionGetsNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := publisherOf(t, func(ctx context.Context, _ publish.Message) error {
		cancel()
		return ctx.Err() // what has begun goes on
	})
	want := []publish.Result{{Outcome: publish.Confirmed}, {Outcome: publish.NotSent, Err: publish.ErrNotSent}}
	p.Publish(ctx, make([]publish.Message, len(want)), func(i int, r publish.Result) {
		if r.Outcome != want[i].Outcome || !errors.Is(r.Err, want[i].Err) {
			t.Errorf("message %d: %+v, want %+v", i, r, want[i])
		}
	})
}

func TestTheSessionOfAFunctionIsOpenedAgainAfterGrowingPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, sessions := time.Now(), 0
		err := publish.Func(nil).KeepConnected(ctx, func(context.Context, publish.Session) error {
			if sessions++; sessions == 10 {
				cancel()
			}
			return errors.New("a timeout")
		})
		if took := time.Since(began); err != nil || took < 5*time.Second || took > time.Minute {
			t.Errorf("10 sessions took %s, error %v", took, err)
		}
	})
}

// nilError is an error that panics when its text is read from a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestAnErrorThatPanicsIsRefused(t *testing.T) {
	t.Parallel()
	var none *nilError
	p := publisherOf(t, func(context.Context, publish.Message) error { return none })
	if r := publish.All(p, make([]publish.Message, 1), time.Minute)[0]; r.Outcome != publish.Refused || r.Err.Error() == "" {
		t.Errorf("%+v", r)
	}
}

func TestCloseEndsTheCallOfAFunction(t *testing.T) {
	t.Parallel()
	var p publish.Publisher
	p = publisherOf(t, func(ctx context.Context, _ publish.Message) error {
		p.Close()
		<-ctx.Done()
		return ctx.Err()
	})
	if r := publish.All(p, make([]publish.Message, 1), time.Hour)[0]; r.Outcome != publish.Unknown || !errors.Is(r.Err, publish.ErrTimeout) {
		t.Errorf("%+v", r)
	}
}
