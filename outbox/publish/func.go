package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// FuncConfig has the settings of [Func]. The zero value of each field is its default. The defaults
// are for the webhooks of fifty customers: each topic has a destination of its own.
type FuncConfig struct {
	// OneDestination says that all topics have the same destination, such as a broker. Then there is no
	// limit for a topic, and a message waits for a call as long as it takes: what hangs stops all.
	OneDestination bool
	// Calls limits the calls that run at the same time, in all relays that use the destination. The
	// default is 100. Unless there is OneDestination, a call counts for its first quarter of a second
	// only, so that slow topics hold up no other. The slow ones have the limit CallsPerTopic.
	Calls int
	// CallsPerTopic is how many calls for one topic run at the same time. The default is 4, or Calls if
	// that is less. OneDestination ignores it.
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
// If f sends by HTTP, it wraps ErrNotSent for a refused connection and a failed TLS handshake, and
// ErrTimeout for an error after that. The relay's Health does not show what is unreachable: its topics
// are paused.
//
// A message waits for one of Calls as long as it takes. Unless there is OneDestination, it waits three
// seconds at most for the calls of its topic. If the confirmed calls show that the earlier messages
// need longer, it does not wait at all. Then it is NotSent with ErrBusy, and comes again after a pause
// of the topic. A Republication has the same limit.
//
// The ctx of a call ends after Timeout, or when the relay's ShutdownTimeout is over. Then f must
// return. A second later the call is overdue: the outcome is Unknown, and the relay's Health names the
// message. Until f returns, the call is one of CallsPerTopic, and this relay does not send the message
// again; another one may. If f then returns nil, the event is marked as published. From a thousand
// overdue calls on (250 topics that hang), or if their messages are too large, the relay claims nothing.
func Func(f func(ctx context.Context, m Message) error, c FuncConfig) Destination {
	c.Calls, c.Timeout = cmp.Or(c.Calls, 100), cmp.Or(c.Timeout, 30*time.Second)
	c.CallsPerTopic = cmp.Or(c.CallsPerTopic, min(4, c.Calls))
	if c.OneDestination {
		c.CallsPerTopic = c.Calls
	}
	return &function{FuncConfig: c, f: f, calls: filled(c.Calls), topics: map[string]*funcTopic{}}
}

type function struct {
	FuncConfig
	f      func(context.Context, Message) error
	calls  chan struct{} // that are free
	mu     sync.Mutex
	topics map[string]*funcTopic // that have messages, or had some
}

type funcTopic struct {
	name     string
	calls    chan struct{} // that are free
	last     chan struct{} // closed when the last message has its call, or has given up
	messages int           // that have no answer, or whose call has not returned
	usually  time.Duration // of a confirmed call; zero: nobody knows
}

// funcTurn is a message that comes after another one of its topic.
type funcTurn struct {
	*funcTopic
	before, after chan struct{}
	isTooMuch     bool
}

func filled(n int) chan struct{} {
	c := make(chan struct{}, max(n, 0))
	for range n {
		c <- struct{}{}
	}
	return c
}

var (
	errNotBegun = fmt.Errorf("%w: %w", ErrNotSent, context.Canceled)
	errGoexit   = errors.New("the function has ended its goroutine")
)

const (
	maxTimeout = 30 * time.Minute       // less than a relay waits
	patience   = time.Second            // with a function whose context has ended
	countsFor  = 250 * time.Millisecond // a call among Calls, if each topic has a destination of its own
	maxWait    = 3 * time.Second        // of a message, for a call of its topic
	maxTopics  = 10_000                 // above it, a topic is forgotten when its last message leaves
)

func (*function) System() string { return "function" }
func (*function) Name() string   { return "function" }

// AnswersWithin is how long a relay waits before it says that there are no answers.
func (f *function) AnswersWithin() time.Duration { return f.Timeout }

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
	publishing sync.Mutex // not after Close
	unanswered sync.WaitGroup
}

// Publish returns at once. Messages of a topic get their calls in their order. A relay has one event of
// an aggregate in flight, so messages of the same group are never sent at the same time.
func (p *functionPublisher) Publish(ctx context.Context, messages []Message, answer func(int, Result)) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	if p.closed.Err() != nil {
		for i := range messages {
			answer(i, Result{Outcome: NotSent, Err: errNotBegun})
		}
		return
	}
	p.unanswered.Add(len(messages))
	for i, m := range messages {
		go p.send(ctx, m, p.join(m.Destination+"/"+m.Topic), func(r Result) { answer(i, r) })
	}
}

// send waits for a call, and calls the function.
func (p *functionPublisher) send(ctx context.Context, m Message, turn funcTurn, answer func(Result)) {
	defer p.leave(turn)
	if err := p.wait(ctx, turn); err != nil {
		answer(Result{Outcome: NotSent, Err: err})
		p.unanswered.Done()
		return
	}
	p.run(ctx, m, turn, answer)
}

func (f *function) join(name string) funcTurn {
	if f.OneDestination {
		name = "" // one order for all
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[name]
	if t == nil {
		t = &funcTopic{name: name, calls: filled(f.CallsPerTopic), last: make(chan struct{})}
		close(t.last)
		f.topics[name] = t
	}
	t.messages++
	isTooMuch := !f.OneDestination && t.usually > 0 && t.messages > f.CallsPerTopic*(1+int(maxWait/t.usually))
	turn := funcTurn{t, t.last, make(chan struct{}), isTooMuch}
	if !turn.isTooMuch {
		t.last = turn.after
	}
	return turn
}

func (f *function) leave(turn funcTurn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if turn.messages--; turn.messages == 0 && len(f.topics) > maxTopics {
		delete(f.topics, turn.name)
	}
}

// confirmed notes how long a call took that was confirmed.
func (f *function) confirmed(t *funcTopic, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	took = min(took, maxWait) // one that was overdue says little about the next
	t.usually = (3*cmp.Or(t.usually, took) + took) / 4
}

// wait takes a call of the topic, and one of Calls. Its error says why there is none.
func (p *functionPublisher) wait(ctx context.Context, turn funcTurn) error {
	if turn.isTooMuch {
		return ErrBusy
	}
	defer func() {
		select {
		case <-turn.before:
			close(turn.after)
		default: // it gives up. The next one comes after those before
			go func() { <-turn.before; close(turn.after) }()
		}
	}()
	soon, cancel := ctx, func() {}
	if !p.OneDestination {
		soon, cancel = context.WithTimeoutCause(ctx, maxWait, ErrBusy)
	}
	defer cancel()
	for _, free := range []chan struct{}{turn.before, turn.calls} {
		select {
		case <-free:
		case <-soon.Done():
			if errors.Is(context.Cause(soon), ErrBusy) {
				return ErrBusy
			}
			return errNotBegun
		case <-p.closed.Done():
			return errNotBegun
		}
	}
	select {
	case <-p.calls:
		if ctx.Err() == nil && p.closed.Err() == nil { // Err looks at the clock: the lease may have ended without Done
			return nil
		}
		p.calls <- struct{}{}
	case <-ctx.Done():
	case <-p.closed.Done():
	}
	turn.calls <- struct{}{}
	return errNotBegun
}

// run calls the function, and answers also if it does not return: then once more, when it does.
func (p *functionPublisher) run(ctx context.Context, m Message, turn funcTurn, answer func(Result)) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Timeout) // what has begun is finished
	defer cancel()
	defer context.AfterFunc(p.closed, cancel)() //nolint:contextcheck // Close ends the call too
	returned := make(chan Result, 1)
	go func() {
		r := Result{Outcome: Refused, Err: errGoexit}
		defer func() { returned <- r }() // also after runtime.Goexit
		r = p.result(ctx, m)
	}()
	uncount, markAnswered := sync.OnceFunc(func() { p.calls <- struct{}{} }), sync.OnceFunc(p.unanswered.Done)
	var slow, overdue <-chan time.Time
	if !p.OneDestination {
		slow = time.After(countsFor)
	}
	for ended := ctx.Done(); ; {
		select {
		case r := <-returned:
			if uncount(); r.Outcome == Confirmed {
				p.confirmed(turn.funcTopic, time.Since(began))
			}
			turn.calls <- struct{}{} // before the answer, after which the next message may follow
			answer(r)
			markAnswered()
			return
		case <-slow:
			uncount()
		case <-ended:
			ended, overdue = nil, time.After(patience)
		case <-overdue:
			uncount()
			answer(Result{Outcome: Unknown, Err: ErrOverdue})
			markAnswered()
		}
	}
}

// result calls the function. The function's error becomes the outcome.
func (p *functionPublisher) result(ctx context.Context, m Message) (r Result) {
	defer func() {
		if reason := recover(); reason != nil {
			r = Result{Outcome: Refused, Err: fmt.Errorf("the function panicked: %v", reason)}
		}
	}()
	err := p.f(ctx, m)
	if err == nil {
		return Result{Outcome: Confirmed}
	}
	text := err.Error() // a nil pointer in an error may panic here, and must not do so later
	switch {
	case errors.Is(err, ErrOverdue): // that is for a call that has not returned
		return Result{Outcome: Unknown, Err: fmt.Errorf("%w: %s", ErrTimeout, text)}
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

// Close ends the contexts of the calls, and waits for the first answer to each message.
func (p *functionPublisher) Close() {
	p.publishing.Lock()
	p.end()
	p.publishing.Unlock()
	p.unanswered.Wait()
}
