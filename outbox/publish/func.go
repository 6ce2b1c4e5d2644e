package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Func makes a destination of one function, with at most so many calls at a time in all workers of
// all relays that use it. A message waits for a free call as long as it takes. Meanwhile no other
// replica can send it: if f is slow, set [outbox.RelayConfig.Window] so that Workers × Window is not
// more than calls. Each message has its own answer ([OneByOne]): SlowAfter and ConfirmTimeout do not
// matter. The program examples/webhook of the repository sends by HTTP. The error of f is the outcome:
//
//	nil                        Confirmed
//	a panic, or another error  Refused
//	it wraps ErrInvalid        Invalid
//	it wraps ErrReturned       Returned
//	it wraps ErrBusy           NotSent: the topic of the message pauses
//	it wraps ErrNotSent        NotSent: the destination is unreachable, so the session ends, and what
//	                           is not begun is NotSent too; after a pause there is another session
//	it wraps ErrTimeout        Unknown: the message may be delivered. It is sent again with its id,
//	                           after growing pauses, and does not fail for that
//	                           unless [outbox.RelayConfig.NoAnswerPauses] is set
//	ctx has ended              the same
//
// With HTTP, a refused connection is ErrNotSent, and an error after that is ErrTimeout.
//
// ctx ends [FuncTimeout] after the begin of the call. When the relay must end, no new call begins, and
// ctx ends after its ShutdownTimeout. Then f must return.
func Func(calls int, f func(ctx context.Context, m Message) error) Destination {
	return &function{call: f, running: make(chan struct{}, max(calls, 0))}
}

type function struct {
	call      func(context.Context, Message) error
	running   chan struct{} // one for each call
	lastError atomic.Pointer[error]
}

func (*function) System() string { return "function" }
func (*function) Name() string   { return "function" }

// LastError is the last ErrNotSent. The relay's Health shows it between two sessions: while a call
// takes time, nobody knows better.
func (f *function) LastError() error {
	if err := f.lastError.Load(); err != nil {
		return *err
	}
	return nil
}

const (
	// FuncTimeout is how long one call of the function of [Func] may take.
	FuncTimeout = 30 * time.Second

	patience    = time.Second      // with a function whose context has ended
	maxPause    = 10 * time.Second // between two sessions
	stableAfter = 15 * time.Second // then the pauses begin anew
)

// KeepConnected has nothing to connect to. It calls use again and again.
func (f *function) KeepConnected(ctx context.Context, use func(context.Context, Session) error) error {
	if f.call == nil || cap(f.running) == 0 {
		return errors.New("publish: Func needs a function, and at least one call at a time")
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 250*time.Millisecond, maxPause
	for ctx.Err() == nil {
		began := time.Now()
		f.session(ctx, use)
		if time.Since(began) > stableAfter {
			pause.Reset()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.NextBackOff()):
		}
	}
	return nil
}

// session ends when use returns. What has begun outlives ctx. The relay has logged why a message was
// not sent.
func (f *function) session(ctx context.Context, use func(context.Context, Session) error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	lost, lose := context.WithCancelCause(context.Background())
	_ = use(ctx, functionSession{f, lost, func(err error) { lose(err); end() }})
}

type functionSession struct {
	*function
	lost context.Context
	lose func(error)
}

func (functionSession) OneByOne()     {}
func (functionSession) Blocked() bool { return false }

func (s functionSession) NewPublisher(int) (Publisher, error) {
	p := &functionPublisher{functionSession: s}
	p.closed, p.end = context.WithCancel(context.Background())
	return p, nil
}

type functionPublisher struct {
	functionSession
	closed     context.Context
	end        context.CancelFunc
	mu         sync.Mutex // nothing begins after Close
	unanswered sync.WaitGroup
}

// Publish returns when all is begun. A relay has one event of an aggregate in flight, so messages
// of the same group are never sent at the same time.
func (p *functionPublisher) Publish(ctx context.Context, messages []Message, answer func(int, Result)) {
	for i, m := range messages {
		if reason := p.begin(ctx); reason != nil {
			answer(i, Result{Outcome: NotSent, Err: fmt.Errorf("%w: %w", ErrNotSent, reason)})
			continue
		}
		go p.send(ctx, m, func(r Result) { answer(i, r) })
	}
}

// begin waits for a free call. It returns why there is none any more.
func (p *functionPublisher) begin(ctx context.Context) error {
	free := false
	select {
	case <-ctx.Done():
	case <-p.lost.Done():
	case <-p.closed.Done():
	case p.running <- struct{}{}:
		free = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := cmp.Or(ctx.Err(), context.Cause(p.lost), p.closed.Err()) //nolint:contextcheck // the session's
	if err == nil {
		p.unanswered.Add(1)
	} else if free {
		<-p.running
	}
	return err
}

// send answers once, also if the function does not return.
func (p *functionPublisher) send(ctx context.Context, m Message, answer func(Result)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FuncTimeout) // what has begun is finished
	defer cancel()
	defer context.AfterFunc(p.closed, cancel)() //nolint:contextcheck // Close ends the call too
	var once sync.Once
	finish := func(r Result) { once.Do(func() { answer(r); p.unanswered.Done() }) }
	late := Result{Outcome: Unknown, Err: fmt.Errorf("%w, and the function has not returned", ErrTimeout)}
	defer context.AfterFunc(ctx, func() { time.AfterFunc(patience, func() { finish(late) }) })()
	r := p.result(ctx, m)
	<-p.running // before the answer, after which the next message may follow
	finish(r)
}

func (p *functionPublisher) result(ctx context.Context, m Message) (r Result) {
	defer func() {
		if reason := recover(); reason != nil {
			r = Result{Outcome: Refused, Err: fmt.Errorf("the function panicked: %v", reason)}
		}
	}()
	err := p.call(ctx, m)
	if err == nil {
		return Result{Outcome: Confirmed}
	}
	_ = err.Error() // a nil pointer in an error may panic here, and must not do so later
	r = Result{Outcome: Refused, Err: err}
	switch {
	case errors.Is(err, ErrInvalid):
		r.Outcome = Invalid
	case errors.Is(err, ErrReturned):
		r.Outcome = Returned
	case errors.Is(err, ErrBusy):
		r.Outcome = NotSent
	case errors.Is(err, ErrNotSent):
		r.Outcome = NotSent
		p.lastError.Store(&err)
		p.lose(err) // before the answer, after which nothing may begin
	case errors.Is(err, ErrTimeout):
		r.Outcome = Unknown
	case ctx.Err() != nil:
		r = Result{Outcome: Unknown, Err: fmt.Errorf("%w: %w", ErrTimeout, err)}
	}
	return r
}

// Close ends the contexts of the calls, and waits for all answers.
func (p *functionPublisher) Close() {
	p.mu.Lock()
	p.end()
	p.mu.Unlock()
	p.unanswered.Wait()
}
