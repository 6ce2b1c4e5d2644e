package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// FuncConfig has the settings of [Func]. The zero value of each field is its default. The defaults
// are for destinations of which each has a topic, such as the webhooks of fifty customers.
type FuncConfig struct {
	// Calls is how many calls run at the same time, in all workers of all relays that use the
	// destination. The default is 100.
	Calls int
	// CallsPerTopic is how many of them may be for one topic. The default is 4. If it is less than
	// Calls, a call that has lasted for a second has no place among Calls any more, so slow topics hold
	// up no other. If it equals Calls, all topics are one destination, such as a broker: then messages
	// wait as long as it takes, and no other replica can send them meanwhile.
	CallsPerTopic int
	// Timeout is when the context of a call ends. The default is 30 s.
	Timeout time.Duration
}

// Func makes a destination of one function. Each message has its own answer ([OneByOne]). The
// program examples/webhook of the repository sends by HTTP. The error of f is the outcome:
//
//	nil                        Confirmed
//	a panic, or another error  Refused
//	it wraps ErrInvalid        Invalid
//	it wraps ErrReturned       Returned
//	it wraps ErrNotSent        NotSent: nobody has got it, for example because the connection was
//	                           refused. The topic of the message pauses, and nothing is counted
//	it wraps ErrTimeout        Unknown: the message may be delivered. It is sent again with its id,
//	                           after growing pauses, and does not fail for that
//	                           unless [outbox.RelayConfig.NoAnswerPauses] is set
//	ctx has ended              the same
//
// With HTTP, a refused connection is ErrNotSent, and an error after that is ErrTimeout.
//
// A message waits for a free call. If its topic has none, and takes nothing for a second (or for twice
// as long as it usually needs), or could not take all that waits in that time, the topic pauses.
//
// When the relay must end, no new call begins, and ctx ends after its ShutdownTimeout. Then f must
// return. If it does not return a second after the end of ctx, the outcome is Unknown. This relay
// does not send the message again until f has returned, and its Health names it. If f then returns
// nil, the message is delivered.
func Func(f func(ctx context.Context, m Message) error, c FuncConfig) Destination {
	if c.Calls == 0 {
		c.Calls = 100
	}
	if c.CallsPerTopic == 0 {
		c.CallsPerTopic = min(4, c.Calls)
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	return &function{FuncConfig: c, f: f, topics: map[string]*funcTopic{}}
}

// patience is for a function whose context has ended.
const patience = time.Second

type function struct {
	FuncConfig
	f func(context.Context, Message) error

	mu      sync.Mutex
	topics  map[string]*funcTopic
	ready   []*funcTopic // have a message that waits, and a call for it; in turn
	counted int          // calls that count among Calls
}

func (*function) System() string { return "function" }
func (*function) Name() string   { return "function" }

// KeepConnected has nothing to connect to.
func (f *function) KeepConnected(ctx context.Context, use func(context.Context, Session) error) error {
	if f.f == nil || f.CallsPerTopic < 1 || f.Calls < f.CallsPerTopic || f.Timeout < 0 || f.Timeout > maxTimeout {
		return fmt.Errorf("publish: Func needs a function, CallsPerTopic from 1 to Calls, and a Timeout up to %s: %+v", maxTimeout, f.FuncConfig)
	}
	for ctx.Err() == nil {
		_ = use(ctx, functionSession{f})
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// maxTimeout is half of the time that a relay waits.
const maxTimeout = 30 * time.Minute

type functionSession struct{ *function }

func (functionSession) OneByOne()     {}
func (functionSession) Blocked() bool { return false }

func (s functionSession) NewPublisher(int) (Publisher, error) {
	p := &functionPublisher{function: s.function}
	p.closed, p.end = context.WithCancel(context.Background())
	return p, nil
}

type functionPublisher struct {
	*function
	closed     context.Context //nolint:containedctx // it ends with Close
	end        context.CancelFunc
	unanswered sync.WaitGroup
}

// funcCall is a message that waits for its call, or has it.
type funcCall struct {
	*functionPublisher
	ctx      context.Context //nolint:containedctx // of Publish
	message  Message
	answer   func(Result)
	topic    *funcTopic
	waits    bool
	counts   bool // among Calls
	answered bool
}

var errNotBegun = fmt.Errorf("%w: %w", ErrNotSent, context.Canceled)

// Publish returns when each message waits or has a call. A relay has one event of an aggregate in
// flight, so messages of the same group are never sent at the same time.
func (p *functionPublisher) Publish(ctx context.Context, messages []Message, answer func(int, Result)) {
	calls := make([]*funcCall, len(messages))
	for i, m := range messages {
		calls[i] = &funcCall{functionPublisher: p, ctx: ctx, message: m, answer: func(r Result) { answer(i, r) }}
	}
	p.enqueue(calls)
	giveUp := func() { p.giveUp(calls) }
	stop := context.AfterFunc(p.closed, giveUp) //nolint:contextcheck // Close ends the wait too
	context.AfterFunc(ctx, func() { stop(); giveUp() })
}

// finish answers. The first answer is the only one, unless it is ErrOverdue.
func (c *funcCall) finish(r Result) {
	if !c.answered {
		c.answered = true
		defer c.unanswered.Done()
	}
	c.answer(r)
}

// run calls the function, and answers also if it does not return.
func (c *funcCall) run() {
	if c.ctx.Err() != nil || c.closed.Err() != nil { // the lease may have ended without Done: Err looks at the clock
		c.end(Result{Outcome: NotSent, Err: errNotBegun}, 0)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), c.Timeout) // what has begun is finished
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)() //nolint:contextcheck // Close ends the call too
	began, returned := time.Now(), make(chan Result, 1)
	go func() {
		r := Result{Outcome: Refused, Err: errors.New("the function has ended its goroutine")}
		defer func() { returned <- r }()
		r = c.result(ctx)
	}()
	second, ended, late := time.NewTicker(time.Second), ctx.Done(), (<-chan time.Time)(nil)
	defer second.Stop()
	for {
		select {
		case r := <-returned:
			c.end(r, time.Since(began))
			return
		case <-second.C:
			c.slow()
		case <-ended:
			ended, late = nil, time.After(patience)
		case <-late:
			second.Stop()
			c.overdue()
		}
	}
}

// result calls the function. The function's error becomes the outcome.
func (c *funcCall) result(ctx context.Context) (r Result) {
	defer func() {
		if reason := recover(); reason != nil {
			r = Result{Outcome: Refused, Err: fmt.Errorf("the function panicked: %v", reason)}
		}
	}()
	err := c.f(ctx, c.message)
	if err == nil {
		return Result{Outcome: Confirmed}
	}
	_ = err.Error() // a nil pointer in an error may panic here, and must not do so later
	switch {
	case errors.Is(err, ErrInvalid):
		return Result{Outcome: Invalid, Err: err}
	case errors.Is(err, ErrReturned):
		return Result{Outcome: Returned, Err: err}
	case errors.Is(err, ErrNotSent):
		return Result{Outcome: NotSent, Err: unreachable{err}}
	case errors.Is(err, ErrTimeout):
		return Result{Outcome: Unknown, Err: err}
	case ctx.Err() != nil:
		return Result{Outcome: Unknown, Err: fmt.Errorf("%w: %w", ErrTimeout, err)}
	}
	return Result{Outcome: Refused, Err: err}
}

// unreachable makes the topic of the message pause, as ErrBusy does, and has the function's text.
type unreachable struct{ error }

func (unreachable) Is(target error) bool { return target == ErrBusy }
func (u unreachable) Unwrap() error      { return u.error }

// Close ends the contexts of the calls, and waits for all answers.
func (p *functionPublisher) Close() {
	p.mu.Lock() // nothing waits for a call after this
	p.end()
	p.mu.Unlock()
	p.unanswered.Wait()
}
