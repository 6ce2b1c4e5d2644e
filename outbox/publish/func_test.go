package publish_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
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

// later is a function that fails, and not before all messages wait.
func later(err error) function {
	return func(context.Context, publish.Message) error { time.Sleep(time.Millisecond); return err }
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

// answer is a result, and how long it took. If the message was overdue, later is the next one.
type answer struct {
	publish.Result
	after time.Duration
	later *publish.Result
}

// begin publishes so many messages. The answers are those that come at once, and later all.
func begin(ctx context.Context, p publish.Publisher, messages int) []answer {
	return beginAll(ctx, p, make([]publish.Message, messages))
}

func beginAll(ctx context.Context, p publish.Publisher, messages []publish.Message) []answer {
	began, answers := time.Now(), make([]answer, len(messages))
	go p.Publish(ctx, messages, func(i int, r publish.Result) {
		isFirst := answers[i].Err == nil && answers[i].Outcome == publish.Unknown
		switch a := &answers[i]; {
		case isFirst:
			*a = answer{Result: r, after: time.Since(began)}
		case errors.Is(a.Err, publish.ErrOverdue) && a.later == nil:
			a.later = &r
		default:
			panic("answered twice")
		}
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
	const timeout = 30 * time.Second
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
		"ErrNotSent":             {f: fails(fmt.Errorf("refused: %w", publish.ErrNotSent)), want: publish.NotSent, err: publish.ErrBusy},
		"ErrTimeout":             {f: fails(publish.ErrTimeout), want: publish.Unknown, err: publish.ErrTimeout},
		"another error":          {f: fails(other), want: publish.Refused, err: other},
		"a timeout of its own":   {f: fails(context.DeadlineExceeded), want: publish.Refused, err: context.DeadlineExceeded},
		"a nil pointer":          {f: fails((*net.ParseError)(nil)), want: publish.Refused},
		"no return":              {f: func(context.Context, publish.Message) error { runtime.Goexit(); return nil }, want: publish.Refused},
		"a panic":                {f: func(context.Context, publish.Message) error { panic("no") }, want: publish.Refused},
		"two seconds":            {f: takes(2 * time.Second), want: publish.Confirmed, after: 2 * time.Second},
		"too long":               {f: takes(time.Hour), want: publish.Unknown, err: publish.ErrTimeout, after: timeout},
		"deaf for its context":   {f: deaf, want: publish.Unknown, err: publish.ErrOverdue, after: timeout + time.Second},
		"until the context ends": {f: takes(9 * time.Second), end: cancels, want: publish.Confirmed, after: 9 * time.Second},
		"until Close":            {f: takes(9 * time.Second), end: closes, want: publish.Unknown, err: publish.ErrTimeout},
		"deaf for Close":         {f: deaf, end: closes, takes: time.Second, want: publish.Unknown, err: publish.ErrOverdue, after: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := publisherOf(t, publish.Func(func(ctx context.Context, m publish.Message) error {
				if calls.Add(1) == 2 {
					return ctx.Err() // it has a deadline of its own
				}
				return row.f(ctx, m)
			}, publish.FuncConfig{OneDestination: true, Calls: 1}))
			nextOne, notSent := publish.Confirmed, begin(leased{ctx}, p, 1)
			firsts := begin(ctx, p, 1)
			nexts := begin(ctx, p, 1) // waits for the same call
			if row.end != nil {
				row.end(p, cancel)
				if nextOne = publish.NotSent; time.Since(began) != row.takes {
					t.Errorf("%s: the end took %s", name, time.Since(began))
				}
				notSent = append(notSent, begin(ctx, p, 1)[0], nexts[0])
			}
			sleep(2 * time.Hour)
			first, next := firsts[0], nexts[0]
			if first.Outcome != row.want || row.err != nil && !errors.Is(first.Err, row.err) ||
				(first.Err == nil || first.Err.Error() == "") != (row.want == publish.Confirmed) {
				t.Errorf("%s: %+v, want outcome %d with %v", name, first, row.want, row.err)
			}
			if first.after != row.after || next.Outcome != nextOne {
				t.Errorf("%s: answered after %s, the next one: %+v", name, first.after, next)
			}
			if later := first.later; errors.Is(row.err, publish.ErrOverdue) && (later == nil || later.Outcome != publish.Confirmed) {
				t.Errorf("%s: the answer after that is %+v", name, later)
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
			to := publish.Func(func(ctx context.Context, m publish.Message) error {
				if n := int(running.Add(1)); n > row.calls {
					t.Errorf("%d calls at a time, want %d", n, row.calls)
				}
				defer running.Add(-1)
				return takes(row.each)(ctx, m)
			}, publish.FuncConfig{OneDestination: true, Calls: row.calls})
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

// TestPublishBesideClose: each message has its answer.
func TestPublishBesideClose(t *testing.T) {
	t.Parallel()
	to := publish.Func(fails(nil), publish.FuncConfig{})
	for range 1000 {
		var answers atomic.Int64
		p := publisherOf(t, to)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 30 {
					p.Publish(t.Context(), make([]publish.Message, 1), func(int, publish.Result) { answers.Add(1) })
				}
			})
		}
		all.Go(p.Close)
		all.Wait()
		if p.Close(); answers.Load() != 90 {
			t.Fatalf("%d answers, want 90", answers.Load())
		}
	}
}

func TestFuncNeedsSettingsThatCanWork(t *testing.T) {
	t.Parallel()
	for _, c := range []publish.FuncConfig{{Calls: -1}, {CallsPerTopic: -1}, {Calls: 3, CallsPerTopic: 4}, {OneDestination: true, Calls: -1}, {Timeout: -1}, {Timeout: time.Hour}} {
		if publish.Func(fails(nil), c).KeepConnected(t.Context(), nil) == nil {
			t.Errorf("no error of %+v", c)
		}
	}
	if publish.Func(nil, publish.FuncConfig{}).KeepConnected(t.Context(), nil) == nil {
		t.Error("no error without a function")
	}
}
