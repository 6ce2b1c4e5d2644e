package publish_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

type function func(context.Context, publish.Message) error

func fails(err error) function {
	return func(context.Context, publish.Message) error { return err }
}

// takes is a function that needs some time, and ends with its context.
func takes(d time.Duration) function {
	return func(ctx context.Context, _ publish.Message) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

// deaf is a function that does not look at its context.
func deaf(context.Context, publish.Message) error { time.Sleep(time.Hour); return nil }

// publisherOf returns a publisher with a session of its own.
func publisherOf(t *testing.T, to publish.Destination) (p publish.Publisher) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	err := to.KeepConnected(ctx, func(_ context.Context, s publish.Session) (err error) {
		defer cancel()
		p, err = s.NewPublisher(10)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// answer is a result, and how long it took.
type answer struct {
	publish.Result
	after time.Duration
}

// begin publishes so many messages. The answers are those that come at once, and later all.
func begin(ctx context.Context, p publish.Publisher, messages int) []answer {
	began, answers := time.Now(), make([]answer, messages)
	go p.Publish(ctx, make([]publish.Message, messages), func(i int, r publish.Result) {
		if answers[i].Err != nil || answers[i].Outcome != publish.Unknown {
			panic("answered twice")
		}
		answers[i] = answer{r, time.Since(began)}
	})
	synctest.Wait()
	return answers
}

func sleep(d time.Duration) { time.Sleep(d); synctest.Wait() }

// leased is a context that has ended, without Done: its lease is over.
type leased struct{ context.Context }

func (leased) Err() error { return context.DeadlineExceeded }

// TestWhatAFunctionDoesIsTheOutcome of the first message. The next one waits for the same call. It
// is sent, unless it is NotSent at once.
func TestWhatAFunctionDoesIsTheOutcome(t *testing.T) {
	t.Parallel()
	other := errors.New("not now")
	cancels := func(_ publish.Publisher, cancel func()) { cancel() }
	closes := func(p publish.Publisher, _ func()) { p.Close(); p.Close() }
	const timeout = publish.FuncTimeout
	for name, row := range map[string]struct {
		f     function
		end   func(p publish.Publisher, cancel func()) // while it runs
		takes time.Duration                            // the end
		want  publish.Outcome
		err   error
		after time.Duration
	}{
		"nil":                    {f: fails(nil), want: publish.Confirmed},
		"ErrInvalid":             {f: fails(fmt.Errorf("%w: a comma", publish.ErrBadTopic)), want: publish.Invalid, err: publish.ErrBadTopic},
		"ErrReturned":            {f: fails(fmt.Errorf("nobody: %w", publish.ErrReturned)), want: publish.Returned, err: publish.ErrReturned},
		"ErrBusy":                {f: fails(publish.ErrBusy), want: publish.NotSent, err: publish.ErrBusy},
		"ErrTimeout":             {f: fails(publish.ErrTimeout), want: publish.Unknown, err: publish.ErrTimeout},
		"another error":          {f: fails(other), want: publish.Refused, err: other},
		"a timeout of its own":   {f: fails(context.DeadlineExceeded), want: publish.Refused, err: context.DeadlineExceeded},
		"a nil pointer":          {f: fails((*net.ParseError)(nil)), want: publish.Refused},
		"a panic":                {f: func(context.Context, publish.Message) error { panic("no") }, want: publish.Refused},
		"two seconds":            {f: takes(2 * time.Second), want: publish.Confirmed, after: 2 * time.Second},
		"too long":               {f: takes(time.Hour), want: publish.Unknown, err: publish.ErrTimeout, after: timeout},
		"deaf for its context":   {f: deaf, want: publish.Unknown, err: publish.ErrTimeout, after: timeout + time.Second},
		"until the context ends": {f: takes(9 * time.Second), end: cancels, want: publish.Confirmed, after: 9 * time.Second},
		"until Close":            {f: takes(9 * time.Second), end: closes, want: publish.Unknown, err: publish.ErrTimeout},
		"deaf for Close":         {f: deaf, end: closes, takes: time.Second, want: publish.Unknown, err: publish.ErrTimeout, after: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, began := 0, time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := publisherOf(t, publish.Func(1, func(ctx context.Context, m publish.Message) error {
				if calls++; calls == 2 {
					return ctx.Err() // it has a deadline of its own
				}
				return row.f(ctx, m)
			}))
			nextOne, notSent := publish.Confirmed, begin(leased{ctx}, p, 1)
			answers := begin(ctx, p, 2)
			if row.end != nil {
				row.end(p, cancel)
				if nextOne = publish.NotSent; time.Since(began) != row.takes {
					t.Errorf("%s: the end took %s", name, time.Since(began))
				}
				notSent = append(notSent, begin(ctx, p, 1)[0], answers[1])
			}
			sleep(2 * time.Hour)
			first, next := answers[0], answers[1]
			if first.Outcome != row.want || row.err != nil && !errors.Is(first.Err, row.err) ||
				(first.Err == nil || first.Err.Error() == "") != (row.want == publish.Confirmed) {
				t.Errorf("%s: %+v, want outcome %d with %v", name, first, row.want, row.err)
			}
			if first.after != row.after || next.Outcome != nextOne {
				t.Errorf("%s: answered after %s, the next one: %+v", name, first.after, next)
			}
			for _, a := range notSent {
				if a.Outcome != publish.NotSent || !errors.Is(a.Err, publish.ErrNotSent) {
					t.Errorf("%s: %+v, although it has not begun", name, a)
				}
			}
		})
	}
}

// TestAFunctionHasSoManyCallsAtATime in all sessions. Messages wait for them without a deadline.
func TestAFunctionHasSoManyCallsAtATime(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		calls, messages int
		each, all       time.Duration
	}{{1, 1000, 20 * time.Millisecond, 20 * time.Second}, {3, 120, 2 * time.Second, 80 * time.Second}, {500, 100, time.Second, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var running atomic.Int64
			to := publish.Func(row.calls, func(ctx context.Context, m publish.Message) error {
				if n := int(running.Add(1)); n > row.calls {
					t.Errorf("%d calls at a time, want %d", n, row.calls)
				}
				defer running.Add(-1)
				return takes(row.each)(ctx, m)
			})
			var answers [4][]answer
			for i := range answers {
				answers[i] = begin(t.Context(), publisherOf(t, to), row.messages/len(answers))
			}
			sleep(row.all)
			for i, a := range slices.Concat(answers[:]...) {
				if a.Outcome != publish.Confirmed {
					t.Fatalf("message %d after %s: %+v", i, row.all, a)
				}
			}
		})
	}
}

// TestAnUnreachableDestinationEndsTheSession of a function. Nothing else is begun, and another
// session is opened after growing pauses.
func TestAnUnreachableDestinationEndsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, sessions, calls := time.Now(), 0, 0
		down := fmt.Errorf("%w: connection refused", publish.ErrNotSent)
		to := publish.Func(1, func(context.Context, publish.Message) error { calls++; return down })
		err := to.KeepConnected(ctx, func(ctx context.Context, s publish.Session) error {
			if sessions++; sessions == 10 {
				cancel()
			}
			p, err := s.NewPublisher(10)
			if err != nil {
				return err
			}
			for i, a := range begin(t.Context(), p, 3) {
				if a.Outcome != publish.NotSent || !errors.Is(a.Err, down) {
					t.Errorf("message %d: %+v", i, a)
				}
			}
			<-ctx.Done()
			p.Close()
			return nil
		})
		if took := time.Since(began); err != nil || calls != 10 || took < 5*time.Second || took > time.Minute {
			t.Errorf("%d calls of 10 sessions took %s, error %v", calls, took, err)
		}
	})
}

func TestFuncNeedsAFunctionAndACall(t *testing.T) {
	t.Parallel()
	for _, to := range []publish.Destination{publish.Func(1, nil), publish.Func(0, fails(nil)), publish.Func(-1, fails(nil))} {
		if to.KeepConnected(t.Context(), nil) == nil {
			t.Errorf("no error of %+v", to)
		}
	}
}
