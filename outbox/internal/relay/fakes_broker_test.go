package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// fakeBroker is a destination that answers as the test says. Its publishers share what has no
// answer.
type fakeBroker struct {
	answers func(messages []publish.Message) []publish.Result // nil: silent, as is this outcome
	after   func(n int) time.Duration                         // the answer to the nth message comes later
	stalls  bool                                              // behind a message without an answer, nothing is read from a connection, and who writes to it waits

	mu      sync.Mutex
	opened  int // publishers
	asked   int // how often a worker asked whether it blocks: some times in each turn of its loop
	blocked bool
	copies  map[string]int // of each message
	waiting []func(publish.Result)
}

const silent publish.Outcome = -1

func (*fakeBroker) System() string { return "rabbitmq" }
func (*fakeBroker) Name() string   { return "events" }

// KeepConnected has a session at once, and another one a second after it has ended.
func (b *fakeBroker) KeepConnected(ctx context.Context, use func(context.Context, publish.Session) error) error {
	for ctx.Err() == nil {
		_ = use(ctx, b)
		Wait(ctx, time.Second)
	}
	return nil
}

func (b *fakeBroker) NewPublisher(int) (publish.Publisher, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	return &fakePublisher{b: b, closed: make(chan struct{})}, nil
}

func (b *fakeBroker) Blocked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	return b.blocked
}

// turns is how often a worker asked whether the broker blocks.
func (b *fakeBroker) turns() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// sent is how many messages the broker has got, repeats not counted.
func (b *fakeBroker) sent() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.copies)
}

func (b *fakeBroker) block(blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocked = blocked
}

// answer answers what waits.
func (b *fakeBroker) answer(r publish.Result) {
	for b.answerOne(r) {
	}
}

// answerOne answers the first that waits.
func (b *fakeBroker) answerOne(r publish.Result) (there bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if there = len(b.waiting) > 0; there {
		b.waiting[0](r)
		b.waiting = b.waiting[1:]
	}
	return there
}

type fakePublisher struct {
	b        *fakeBroker
	mine     []func(publish.Result)
	isClosed bool
	closed   chan struct{}
}

func (p *fakePublisher) Publish(ctx context.Context, messages []publish.Message, answer func(int, publish.Result)) {
	if p.write(messages, answer) {
		select {
		case <-ctx.Done():
		case <-p.closed:
		}
	}
}

// write reports whether the connection stalls.
func (p *fakePublisher) write(messages []publish.Message, answer func(int, publish.Result)) bool {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	results := answerAll(silent)(messages)
	if b.answers != nil {
		results = b.answers(messages)
	}
	for i, m := range messages {
		var once sync.Once
		one := func(r publish.Result) { once.Do(func() { answer(i, r) }) }
		n := len(b.copies)
		b.copies[m.ID]++
		switch {
		case p.isClosed:
			one(publish.Result{Outcome: publish.NotSent, Err: publish.ErrNotSent})
		case results[i].Outcome == silent || b.stalls && len(p.mine) > 0:
			p.mine, b.waiting = append(p.mine, one), append(b.waiting, one)
		case b.after != nil:
			time.AfterFunc(b.after(n), func() { one(results[i]) })
		default:
			one(results[i])
		}
	}
	return b.stalls && len(p.mine) > 0
}

func (p *fakePublisher) Close() {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if !p.isClosed {
		close(p.closed)
	}
	p.isClosed = true
	for _, give := range p.mine {
		give(unknown)
	}
	p.mine = nil
}

func answerAll(outcome publish.Outcome) func(messages []publish.Message) []publish.Result {
	return func(messages []publish.Message) []publish.Result {
		return slices.Repeat([]publish.Result{{Outcome: outcome, Err: reasons[outcome]}}, len(messages))
	}
}

// only is silent about other topics.
func only(topic string) func(messages []publish.Message) []publish.Result {
	return func(messages []publish.Message) []publish.Result {
		results := answerAll(silent)(messages)
		for i, m := range messages {
			if m.Topic == topic {
				results[i] = taken
			}
		}
		return results
	}
}

var taken = publish.Result{Outcome: publish.Confirmed}

var reasons = map[publish.Outcome]error{
	publish.Refused: errors.New("the reason"), publish.Returned: publish.ErrReturned, publish.Invalid: publish.ErrTooLarge,
	publish.Unknown: errors.New("the connection is lost"), publish.NotSent: publish.ErrNotSent,
}
