package world

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/source"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// The library's defaults, except Workers, BatchSize, MaxAttempts and PollInterval. With that poll
// interval, a relay that has nothing to do asks for work again at once, and then waits for the
// reader like everything else here.
var config = outbox.RelayConfig{
	DeadLetters: deadLetters, AppID: "order-service",
	Workers: 1, BatchSize: 3, PollInterval: time.Millisecond, Lease: time.Minute, MaxAttempts: 3,
}

// process is an order-service with the real relay. All that the relay asks of PostgreSQL and of
// the broker is a call, which waits until the reader lets it happen.
type process struct {
	name   string
	world  *World
	cancel context.CancelFunc
	dead   bool
	call   *call // what the relay waits for, or nil while it works or pauses
}

// call is a question to a server.
type call struct {
	step   step
	events []uuid.UUID // of the batch
	detail string
	do     func() any // what the server does, and its answer
	answer chan any   // closed without an answer: the process is dead
}

// step is where a relay is.
type step string

// The steps of a relay.
const (
	claiming     step = "claim"      // before the claim
	sending      step = "send"       // the messages are on their way to the broker
	confirming   step = "confirm"    // the broker's answers are on their way back
	marking      step = "mark"       // before the events are marked published
	rescheduling step = "reschedule" // before a later attempt is noted
	failing      step = "fail"       // before an event is marked failed
	overtaking   step = "overtake"   // before an event that a newer one supersedes is settled
	releasing    step = "release"    // before the claim is released
	retrying     step = "retry"      // before unroutable events are made due
)

// start runs the relay until the process is killed. When a session has ended, the next one begins at
// once.
func (w *World) start(name string) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{name: name, world: w, cancel: cancel}
	publishOn := source.New(config, p)
	go func() {
		for ctx.Err() == nil {
			_ = publishOn(ctx, session{p})
		}
	}()
	return p
}

// kill ends the process like SIGKILL: the relay's goroutine runs no further line of its own.
func (p *process) kill() {
	p.dead = true
	p.cancel()
	if p.call != nil {
		close(p.call.answer)
		p.call = nil
	}
}

// ask waits until the reader lets the call happen. It does not return if the process is dead.
func (p *process) ask(c call) any {
	c.answer = make(chan any, 1)
	p.world.mu.Lock()
	dead := p.dead
	if !dead {
		p.call = &c
	}
	p.world.mu.Unlock()
	if dead {
		runtime.Goexit()
	}
	p.world.changed()
	answer, alive := <-c.answer
	if !alive {
		runtime.Goexit()
	}
	return answer
}

// let answers the call. The caller holds the world's lock.
func (p *process) let(answer any) {
	p.call.answer <- answer
	p.call = nil
}

// The process is where the relay claims events.

func (p *process) Claim(_ context.Context, worker string, limit int, lease time.Duration) (store.Claim, error) {
	_ = worker // the real one has the process id of the browser, which is always the same
	return p.ask(call{step: claiming, do: func() any {
		return p.world.outbox.Claim(uuid.New(), p.name, limit, lease)
	}}).(store.Claim), nil
}

func (p *process) MarkPublished(_ context.Context, token uuid.UUID, ids []uuid.UUID) error {
	p.ask(call{step: marking, events: ids, do: func() any {
		p.world.outbox.MarkPublished(token, ids)
		return nil
	}})
	return nil
}

// Overtake is not called: no event of the simulator supersedes an older one.
func (p *process) Overtake(_ context.Context, token uuid.UUID, ids []uuid.UUID) error {
	p.ask(call{step: overtaking, events: ids, do: func() any {
		p.world.outbox.Overtake(token, ids)
		return nil
	}})
	return nil
}

func (p *process) Reschedule(_ context.Context, token uuid.UUID, failures []store.Failure) (int, error) {
	return p.ask(call{
		step: rescheduling, events: idsOf(failures), detail: failures[0].Code,
		do: func() any { return p.world.outbox.Reschedule(token, failures) },
	}).(int), nil
}

func idsOf(failures []store.Failure) (ids []uuid.UUID) {
	for _, f := range failures {
		ids = append(ids, f.ID)
	}
	return ids
}

func (p *process) RetryUnroutable(_ context.Context, topic string, limit int) (int, error) {
	return p.ask(call{step: retrying, detail: topic, do: func() any { return p.world.outbox.RetryUnroutable(topic, limit) }}).(int), nil
}

func (p *process) Release(_ context.Context, token uuid.UUID) (bool, error) {
	return p.ask(call{step: releasing, do: func() any { return p.world.outbox.Release(token) }}).(bool), nil
}

func (p *process) Fail(_ context.Context, token uuid.UUID, failure store.Failure) (time.Time, int, error) {
	type result struct {
		at   time.Time
		held int
	}
	r := p.ask(call{step: failing, events: []uuid.UUID{failure.ID}, detail: failure.Code, do: func() any {
		at, held := p.world.outbox.Fail(token, failure)
		return result{at, held}
	}}).(result)
	return r.at, r.held, nil
}

// session is the process's connection to the broker.
type session struct{ *process }

func (s session) NewPublisher(int) (publish.Publisher, error) { return publisher(s), nil }
func (s session) Unblocked(context.Context) error             { return nil }

type publisher struct{ *process }

func (publisher) Close() {}

var errConnectionLost = errors.New("the connection was lost")

// Publish has two steps: the way to the broker, and the way back.
func (p publisher) Publish(messages []publish.Message, _ time.Duration) []publish.Result {
	var ids []uuid.UUID
	for _, m := range messages {
		ids = append(ids, uuid.MustParse(m.ID))
	}
	lost := make([]publish.Result, len(messages))
	for i := range lost {
		lost[i].Err = fmt.Errorf("sending %d messages: %w", len(messages), errConnectionLost)
	}
	taken := p.ask(call{step: sending, events: ids, detail: messages[0].Destination, do: func() any { return p.world.broker.take(messages) }})
	results, arrived := taken.([]publish.Result)
	if !arrived {
		return lost
	}
	answer := p.ask(call{step: confirming, events: ids, detail: describe(results), do: func() any { return results }})
	if answer == nil {
		return lost
	}
	return results
}
