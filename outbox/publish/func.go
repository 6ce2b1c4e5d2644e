package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Func makes a destination of one function. The function is called for one message after the other,
// and its error is the outcome: nil is Confirmed, an error that wraps [ErrInvalid] is Invalid, one
// that wraps [ErrReturned] is Returned, and any other one is Refused. So is a panic. The relay sends
// a refused message again after a pause; the comment of outbox.Relay says what follows each outcome.
//
// If a call takes longer than 100 ms, set [outbox.RelayConfig.Window] to a few: what is not called
// within the ConfirmTimeout is claimed again later.
//
// The relay calls it in each of its workers at the same time. The context of a call ends after
// [FuncTimeout], or when the relay cannot wait any longer. Then the function must return. The
// outcome is Unknown unless it returns nil: the relay cannot know whether the message was delivered,
// and sends it again later. So f may get a message twice, with the same id.
func Func(f func(ctx context.Context, m Message) error) Destination { return function(f) }

type function func(context.Context, Message) error

func (function) System() string { return "function" }

func (function) Name() string { return "function" }

// FuncTimeout is how long one call of the function of [Func] may take.
const FuncTimeout = 30 * time.Second

// A session ends when its user has an error.
const (
	firstPause  = 250 * time.Millisecond
	maxPause    = 10 * time.Second
	stableAfter = 15 * time.Second // then the pauses begin at firstPause again
)

// KeepConnected has nothing to connect to. It calls use again and again.
func (f function) KeepConnected(ctx context.Context, use func(context.Context, Session) error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, maxPause
	for {
		began := time.Now()
		err := use(ctx, f)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > stableAfter {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		slog.WarnContext(ctx, "the function's session has ended, trying again",
			"in", wait.Round(time.Millisecond).String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// NewPublisher makes function a [Session].
func (f function) NewPublisher(int) (Publisher, error) {
	closed, end := context.WithCancel(context.Background())
	return &functionPublisher{f: f, closed: closed, end: end}, nil
}

// OneByOne makes a slow function no reason for another session.
func (function) OneByOne() {}

// Blocked is false: a function does not ask its callers to wait.
func (function) Blocked() bool { return false }

type functionPublisher struct {
	f      function
	mu     sync.Mutex // one message after the other
	closed context.Context
	end    context.CancelFunc
}

// Publish returns when all messages have their answers.
func (p *functionPublisher) Publish(ctx context.Context, messages []Message, answer func(int, Result)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range messages {
		answer(i, p.call(ctx, m))
	}
}

func (p *functionPublisher) call(ctx context.Context, m Message) Result {
	if err := ctx.Err(); err != nil {
		return Result{Outcome: NotSent, Err: fmt.Errorf("%w: %w", ErrNotSent, err)}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FuncTimeout) // what has begun is finished
	defer cancel()
	defer context.AfterFunc(p.closed, cancel)() //nolint:contextcheck // Close ends the call too
	err := withoutPanic(ctx, p.f, m)
	switch {
	case err == nil:
		return Result{Outcome: Confirmed}
	case errors.Is(err, ErrInvalid):
		return Result{Outcome: Invalid, Err: err}
	case errors.Is(err, ErrReturned):
		return Result{Outcome: Returned, Err: err}
	case ctx.Err() != nil: // the error may only say that the time was up
		return Result{Outcome: Unknown, Err: fmt.Errorf("%w: %w", ErrTimeout, err)}
	default:
		return Result{Outcome: Refused, Err: err}
	}
}

func withoutPanic(ctx context.Context, f function, m Message) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the function panicked: %v", reason)
		}
	}()
	if err = f(ctx, m); err != nil {
		_ = err.Error() // a nil pointer in an error may panic here, and must not do so later
	}
	return err
}

// Close ends the context of the call.
func (p *functionPublisher) Close() { p.end() }
