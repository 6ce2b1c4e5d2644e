package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/source"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// The library's defaults, except Workers, Window, Lease, GiveUp, PollInterval and ShutdownTimeout.
// With that poll interval, a relay that has nothing to do asks for work again at once, and then
// waits for the reader like everything else here.
var config = outbox.RelayConfig{
	DeadLetters: deadLetters, AppID: "order-service",
	Workers: 1, Window: 3, PollInterval: time.Millisecond, Lease: time.Minute, GiveUp: time.Minute, ShutdownTimeout: time.Second,
}

// process is an order-service with the real relay. All that the relay asks of PostgreSQL and of
// the broker is a call, which waits until the reader lets it happen.
type process struct {
	name   string
	world  *World
	cancel context.CancelFunc
	dead   bool
	worker line
	prober line // the worker that tries paused topics; it runs only while there are some
}

// line is what one worker of the relay does.
type line struct {
	process *process
	name    string
	call    *call  // what it waits for, or nil while it works or pauses
	inHand  bool   // it has claimed events and not settled them
	lose    func() // its connection
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
	claiming   step = "claim"   // before the claim
	trying     step = "try"     // before the claim of an event of each paused topic
	sending    step = "send"    // the messages are on their way to the broker
	confirming step = "confirm" // the broker's answers are on their way back
	settling   step = "settle"  // before the outcomes are written
)

var (
	errKilled         = errors.New("the process is dead")
	errConnectionLost = errors.New("the connection was lost")
)

// start runs the relay until the process is killed.
func (w *World) start(name string) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{name: name, world: w, cancel: cancel}
	p.worker, p.prober = line{process: p, name: name}, line{process: p, name: name + ", paused topics"}
	run := source.New(config, p, &destination{process: p})
	go func() { _ = run(ctx) }()
	return p
}

func (p *process) lines() []*line { return []*line{&p.worker, &p.prober} }

// kill ends the process like SIGKILL: nothing of what the relay still does reaches a server.
func (p *process) kill() {
	p.dead = true
	p.cancel()
	for _, l := range p.lines() {
		if l.call != nil {
			close(l.call.answer)
			l.call = nil
		}
	}
}

// ask waits until the reader lets the call happen. It returns false if the process is dead.
func (l *line) ask(c call) (answer any, alive bool) {
	c.answer = make(chan any, 1)
	w := l.process.world
	w.mu.Lock()
	dead := l.process.dead
	if !dead {
		l.call = &c
	}
	w.mu.Unlock()
	if dead {
		return nil, false
	}
	w.changed()
	answer, alive = <-c.answer
	return answer, alive
}

// let answers the call. The caller holds the world's lock.
func (l *line) let(answer any) {
	l.call.answer <- answer
	l.call = nil
}

// The process is where the relay claims events.

func (p *process) Claim(_ context.Context, worker string, limit int, lease time.Duration) (store.Claim, error) {
	_ = worker // the real one has the process id of the browser, which is always the same
	return p.worker.claim(claiming, func() store.Claim { return p.world.outbox.Claim(uuid.New(), p.name, limit, lease) })
}

func (p *process) ClaimProbes(_ context.Context, _ string, _ int, lease time.Duration) (store.Claim, error) {
	return p.prober.claim(trying, func() store.Claim { return p.world.outbox.ClaimProbes(uuid.New(), p.name, lease) })
}

func (l *line) claim(s step, claim func() store.Claim) (store.Claim, error) {
	answer, alive := l.ask(call{step: s, do: func() any {
		c := claim()
		l.inHand = len(c.Events) > 0
		return c
	}})
	if !alive {
		return store.Claim{}, errKilled
	}
	return answer.(store.Claim), nil
}

func (p *process) Settle(_ context.Context, s store.Settlement) (store.Settled, error) {
	l := &p.worker
	if s.Probe {
		l = &p.prober
	}
	answer, alive := l.ask(call{step: settling, detail: p.world.describeSettlement(s), do: func() any {
		l.inHand = l.inHand && !s.End
		return p.world.outbox.Settle(s)
	}})
	if !alive {
		return store.Settled{}, errKilled
	}
	return answer.(store.Settled), nil
}

// Renew does nothing: a relay that waits for the reader is like a process that is suspended.
func (p *process) Renew(_ context.Context, tokens []uuid.UUID, _ time.Duration) ([]uuid.UUID, error) {
	return tokens, nil
}

// describeSettlement says what a settlement writes, such as "A1 published, B1 put off (refused)".
func (w *World) describeSettlement(s store.Settlement) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var parts []string
	if len(s.Published) > 0 {
		parts = append(parts, w.names(s.Published)+" published")
	}
	for _, f := range s.Failures {
		parts = append(parts, fmt.Sprintf("%s put off (%s)", w.names([]uuid.UUID{f.ID}), f.Code))
	}
	for topic := range s.Paused {
		parts = append(parts, topic+" paused")
	}
	for _, topic := range s.Resumed {
		parts = append(parts, topic+" resumed")
	}
	if len(parts) == 0 {
		return "that it has nothing more in hand"
	}
	return strings.Join(parts, ", ")
}

// destination is the broker, as the relay of one process sees it.
type destination struct {
	*process
	connected bool
}

func (*destination) System() string { return "simulator" }

func (*destination) Name() string { return "the broker" }

// KeepConnected is called by the worker, and later by the one that tries paused topics. When a
// connection is lost, there is another one at once.
func (d *destination) KeepConnected(ctx context.Context, use func(context.Context, publish.Session) error) error {
	d.world.mu.Lock()
	l := &d.worker
	if d.connected {
		l = &d.prober
	}
	d.connected = true
	d.world.mu.Unlock()
	for ctx.Err() == nil {
		connection, lose := context.WithCancel(ctx)
		d.world.mu.Lock()
		l.lose = lose
		d.world.mu.Unlock()
		_ = use(connection, session{l})
		lose()
	}
	return nil
}

// session is a connection of a worker to the broker.
type session struct{ *line }

func (s session) NewPublisher(int) (publish.Publisher, error) { return publisher(s), nil }

// Blocked is true while something is in hand. So the relay does not count the time in which the
// reader thinks as the broker's silence, and takes one batch after the other.
func (s session) Blocked() bool {
	s.process.world.mu.Lock()
	defer s.process.world.mu.Unlock()
	return s.inHand
}

type publisher struct{ *line }

func (publisher) Close() {}

// Publish has two steps: the way to the broker, and the way back. The copies of failed events take
// none: the relay goes on meanwhile.
func (p publisher) Publish(_ context.Context, messages []publish.Message, answer func(int, publish.Result)) {
	for i, r := range p.exchange(messages) {
		answer(i, r)
	}
}

func (p publisher) exchange(messages []publish.Message) []publish.Result {
	w := p.process.world
	if messages[0].Destination == deadLetters {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.broker.take(messages)
	}
	var ids []uuid.UUID
	lost := make([]publish.Result, len(messages))
	for i, m := range messages {
		ids = append(ids, uuid.MustParse(m.ID))
		lost[i].Err = errConnectionLost
	}
	taken, _ := p.ask(call{step: sending, events: ids, do: func() any { return w.broker.take(messages) }})
	results, arrived := taken.([]publish.Result)
	if !arrived {
		return lost
	}
	if back, _ := p.ask(call{step: confirming, events: ids, detail: describe(results), do: func() any { return results }}); back == nil {
		return lost
	}
	return results
}
