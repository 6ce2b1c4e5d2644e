package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/publish"
)

// simBroker is the destination of one process: a broker with confirms. All processes have the same
// broker, and each worker has a session of its own.
type simBroker struct{ *process }

func (*simBroker) System() string { return "rabbitmq" }
func (*simBroker) Name() string   { return "events" }

func (b *simBroker) KeepConnected(ctx context.Context, use func(context.Context, publish.Session) error) error {
	for ctx.Err() == nil {
		if b.isOpen() && b.step("connect") {
			ctx, lose := context.WithCancel(ctx)
			s := &simSession{process: b.process, ctx: ctx, lose: lose}
			b.mu.Lock()
			b.sessions = append(b.sessions, s)
			b.mu.Unlock()
			_ = use(ctx, s)
			lose()
		}
		Wait(ctx, 50*time.Millisecond+b.upTo("connect", 500*time.Millisecond))
	}
	return nil
}

// isOpen reports whether the broker takes connections.
func (s *sim) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.broker.isOn()
}

type simSession struct {
	*process
	ctx         context.Context
	lose        func()
	unreadUntil time.Time // until then the broker does not read the connection
}

func (s *simSession) Blocked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocked.isOn()
}

func (s *simSession) NewPublisher(window int) (publish.Publisher, error) {
	if s.ctx.Err() != nil || !s.step("open a channel") {
		return nil, errLost
	}
	p := &simPublisher{simSession: s, window: window}
	p.open, p.close = context.WithCancel(s.ctx)
	context.AfterFunc(p.open, func() { p.giveUp(errLost) })
	return p, nil
}

var errLost = errors.New("the connection is lost")

// simPublisher is a channel.
type simPublisher struct {
	*simSession
	window     int
	open       context.Context
	close      func()
	unanswered []*sentMessage // under the lock of the simulation
	isClosing  bool           // the broker ignores what comes
}

// sentMessage is a message on the wire.
type sentMessage struct {
	*record
	once   sync.Once
	answer func(publish.Result)
}

func (p *simPublisher) Publish(ctx context.Context, messages []publish.Message, answer func(int, publish.Result)) {
	for i, m := range messages {
		c := &sentMessage{record: p.of(uuid.MustParse(m.ID)), answer: func(r publish.Result) { answer(i, r) }}
		for p.isUnread() && ctx.Err() == nil && p.open.Err() == nil {
			Wait(ctx, 50*time.Millisecond)
		}
		alive := p.step("send")
		if err := ctx.Err(); err != nil || p.open.Err() != nil || !alive {
			c.answer(publish.Result{Outcome: publish.NotSent, Err: publish.ErrNotSent})
			continue
		}
		p.begin(c.record)
		p.mu.Lock()
		if p.unanswered = append(p.unanswered, c); len(p.unanswered) > p.window*(maxSlowWindows+1) {
			p.violation(nil, "%d messages of one channel have no answer, and the window is %d", len(p.unanswered), p.window)
		}
		p.mu.Unlock()
		p.take(c)
	}
}

func (p *simPublisher) isUnread() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.faultsOver && time.Now().Before(p.unreadUntil)
}

// take is what becomes of a message.
func (p *simPublisher) take(c *sentMessage) {
	if p.isClosing {
		return
	}
	soon, late := p.upTo(c.title(), p.soon)+p.workTime(), p.upTo(c.title(), latest)
	switch p.chooseFault(c.record) {
	case "refused":
		c.addRefusal()
		p.reply(c, soon, publish.Result{Outcome: publish.Refused, Err: errors.New("the queue is full")})
	case "returned":
		p.reply(c, soon, publish.Result{Outcome: publish.Returned, Err: publish.ErrReturned})
	case "late":
		p.deliver(c.record)
		p.reply(c, late, taken)
	case "silent":
		p.mayDeliver(c.record)
		p.mayRepeat(c.record, "there is no answer")
	case "closed":
		c.addRefusal()
		p.isClosing = true
		time.AfterFunc(soon, func() { p.giveUp(publish.ErrClosed); p.close() })
	case "lost":
		p.mayDeliver(c.record)
		p.lose()
	case "unread":
		late = p.upTo(c.title(), late+1) // mostly less than a lease
		p.mu.Lock()
		p.unreadUntil = time.Now().Add(late)
		p.mayCrash(60 * p.dbCrashes) // what waits behind it may be lost meanwhile
		p.mu.Unlock()
		p.mayStall("send", 60*p.stalls)
		p.mayRepeat(c.record, "its connection is not read for "+late.String())
	case "":
		p.deliver(c.record)
		p.reply(c, soon, taken)
	}
}

// workTime is how long the broker needs for what it has got. It works on one message at a time.
func (s *sim) workTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worksUntil = later(s.worksUntil, time.Now()).Add(s.each)
	return time.Until(s.worksUntil) + s.delay
}

// latest is the latest answer, and the longest call.
const latest = 15 * time.Second

func (p *simPublisher) reply(c *sentMessage, in time.Duration, r publish.Result) {
	if r != taken || in >= p.relay.config.SlowAfter {
		p.mayRepeat(c.record, fmt.Sprintf("will be answered after %s: %s", in, outcomes[r.Outcome]))
	}
	time.AfterFunc(in, func() { p.answerOne(c, r) })
}

func (p *simPublisher) answerOne(c *sentMessage, r publish.Result) {
	c.once.Do(func() {
		p.mu.Lock()
		p.unanswered = slices.DeleteFunc(p.unanswered, func(o *sentMessage) bool { return o == c })
		p.mu.Unlock()
		p.got(c.record, r)
		c.answer(r)
	})
}

// giveUp answers what has no answer: nobody knows what became of it.
func (p *simPublisher) giveUp(why error) {
	p.mu.Lock()
	unanswered := slices.Clone(p.unanswered)
	p.mu.Unlock()
	for _, c := range unanswered { // some came before the culprit, and some after it
		p.mayRepeat(c.record, why.Error())
		if c.isLostOften(why) {
			c.addRefusal()
		}
		p.answerOne(c, publish.Result{Outcome: publish.Unknown, Err: why})
	}
}

func (p *simPublisher) Close() { p.close(); p.giveUp(errLost) }

// call is what a destination does that is a function. It answers one by one.
func (p *process) call(ctx context.Context, m publish.Message) error {
	e := p.of(uuid.MustParse(m.ID))
	if p.isDead() {
		return publish.ErrNotSent
	}
	p.begin(e)
	p.calling(e, true)
	defer p.calling(e, false)
	err := p.behave(ctx, e)
	if err != nil && ctx.Err() == nil && !errors.Is(err, publish.ErrNotSent) {
		e.addRefusal()
	}
	if !p.step("returns") {
		return errDead
	}
	if ctx.Err() != nil { // also if the process was stalled: there was no answer in time
		e.addRefusal()
	}
	if err == nil {
		p.got(e, taken)
	} else {
		p.mayRepeat(e, err.Error())
	}
	return err
}

func (p *process) behave(ctx context.Context, e *record) error {
	soon, late := p.upTo(e.title(), 400*time.Millisecond), p.upTo(e.title(), latest)
	if p.badTopic != "" {
		soon /= 10 // what is slow by itself is delayed by itself
	}
	switch p.chooseFault(e) {
	case "not sent":
		return publish.ErrNotSent
	case "refused":
		Wait(ctx, soon)
		return errors.New("not now")
	case "returned":
		return publish.ErrReturned
	case "invalid":
		p.mu.Lock()
		e.invalid = true
		p.mu.Unlock()
		return publish.ErrInvalid
	case "silent":
		p.mayDeliver(e)
		<-ctx.Done()
		return ctx.Err()
	case "late": // also if nobody waits any more
		p.deliver(e)
		e.addRefusal()
		p.mayRepeat(e, "the call takes "+late.String())
		time.Sleep(late)
		return nil
	}
	p.deliver(e)
	Wait(ctx, soon)
	return ctx.Err()
}
