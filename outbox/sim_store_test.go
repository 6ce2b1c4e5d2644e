package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/internal/storetest"
)

// process is one run of a relay. It may be stalled or killed at each step.
type process struct {
	*sim
	name   string
	run    int
	relay  *Relay
	cancel func()
	ended  chan struct{}

	// These are under the lock of the simulation.
	stopping, dead bool
	replaced       bool               // by another run
	stalled        time.Time          // until then
	trouble        time.Time          // what it has sent until then may be sent once more
	asked          time.Time          // to end
	calls          map[*record]bool   // of a function, that have not returned
	confirms       map[uuid.UUID]bool // that it has got, and not recorded
}

func (p *process) title() string { return fmt.Sprintf("%s%d", p.name, p.run) }

func (p *process) isDead() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.dead }

// step is where the process may be stalled or killed. It reports whether it lives.
func (p *process) step(what string) bool {
	if p.happens("kill", p.kills) {
		p.mu.Lock()
		if !p.stopping {
			p.dead, p.stopping = true, true
			p.say(p.title(), nil, "is killed at "+what)
			p.isInTrouble(time.Hour)
		}
		p.mu.Unlock()
		p.cancel()
	}
	p.mayStall(what, p.stalls)
	for {
		p.mu.Lock()
		d, dead := time.Until(p.stalled), p.dead
		p.mu.Unlock()
		if d <= 0 || dead {
			return !dead
		}
		time.Sleep(d)
	}
}

// mayStall stops the process for a while, so often in a thousand.
func (p *process) mayStall(what string, rate int) {
	if p.happens("stall", rate) {
		d := p.upTo("stall", 12*time.Second)
		p.mu.Lock()
		p.stalled = later(p.stalled, time.Now().Add(d))
		p.say(p.title(), nil, "is stalled at "+what+" for "+d.String())
		p.isInTrouble(d)
		p.mu.Unlock()
	}
}

// isInTrouble takes no lock. What the process sends for so long may be sent once more, and until a
// renewal, because its leases may be nearly over.
func (p *process) isInTrouble(d time.Duration) {
	p.trouble = later(p.trouble, time.Now().Add(d+renewEvery))
}

// draw and the following give each process random numbers of its own.
func (p *process) draw(place string, n int) int        { return p.sim.draw(p.title()+place, n) }
func (p *process) happens(place string, rate int) bool { return p.sim.happens(p.title()+place, rate) }
func (p *process) upTo(place string, d time.Duration) time.Duration {
	return p.sim.upTo(p.title()+place, d)
}

// simStore is the store of one process.
type simStore struct{ *process }

var (
	errDead     = errors.New("the process is dead")
	errDatabase = errors.New("the database does not answer")
)

// commit is what the database may forget.
type commit struct {
	at     time.Time
	before *storetest.Model
}

// statement is a transaction. It takes time, and it may fail before its commit or after it. A
// database that the caller does not wait for any more may commit later.
func statement[R any](ctx context.Context, p *simStore, what string, do func() R) (result R, err error) {
	if p.checkBytes(); !p.step(what) {
		return result, errDead
	}
	p.mu.Lock()
	crashes := p.crashes
	p.mu.Unlock()
	delay := time.Millisecond/5 + p.upTo(what, 3*time.Millisecond)
	if p.happens("slow "+what, p.dbSlow) {
		delay = p.upTo(what, 8*time.Second)
		p.mu.Lock()
		p.say(p.title(), nil, what+" takes "+delay.String())
		p.isInTrouble(delay)
		p.mu.Unlock()
	}
	wait(ctx, delay)
	for !p.isUp() {
		if p.mu.Lock(); !p.database.silent {
			err = errDatabase
		}
		p.isInTrouble(0)
		p.mu.Unlock()
		if err != nil || !wait(ctx, 100*time.Millisecond) {
			break
		}
	}
	run := func() (r R, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.crashes != crashes {
			return r, errDatabase
		}
		if p.failovers > 0 {
			p.undo = append(p.undo, commit{time.Now(), p.model.Copy()})
		}
		p.mayCrash(p.failovers)
		return do(), nil
	}
	switch {
	case err != nil:
	case ctx.Err() != nil:
		if err = ctx.Err(); p.draw("commits later", 2) == 0 {
			p.mu.Lock()
			p.isInTrouble(10 * time.Second)
			p.mu.Unlock()
			time.AfterFunc(p.upTo(what, 3*time.Second), func() { _, _ = run() })
		}
	case p.happens("refuse "+what, p.dbErrors):
		err = errDatabase
	default:
		if result, err = run(); err == nil && p.happens("answer to "+what, p.dbErrors) {
			err = errDatabase
		}
	}
	if !p.step(what + ", answered") {
		return *new(R), errDead
	}
	if err != nil {
		p.mu.Lock()
		p.say(p.title(), nil, what+": "+err.Error())
		p.isInTrouble(0)
		p.mu.Unlock()
	}
	return result, err
}

// isUp reports whether the database works.
func (s *sim) isUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !time.Now().Before(s.database.until)
}

// shuffle lets the model choose any of the events that are free.
func (p *simStore) shuffle(rows []storetest.Row) {
	for i := range rows {
		j := p.random("claim").IntN(i + 1)
		rows[i], rows[j] = rows[j], rows[i]
	}
}

func (p *simStore) Claim(ctx context.Context, _ string, limit int, lease time.Duration) (store.Claim, error) {
	return p.claim(ctx, "claim", limit, lease, (*storetest.Model).Claim)
}

func (p *simStore) ClaimTrials(ctx context.Context, _ string, limit int, lease time.Duration) (store.Claim, error) {
	return p.claim(ctx, "claim of trials", limit, lease, (*storetest.Model).ClaimTrials)
}

// claim is a transaction, and then the events are read.
func (p *simStore) claim(ctx context.Context, what string, limit int, lease time.Duration, take func(*storetest.Model, uuid.UUID, int, time.Duration, func([]storetest.Row)) store.Claim) (store.Claim, error) {
	p.mu.Lock()
	p.tokens++
	token := simID(2, p.tokens)
	if !p.oneByOne && time.Now().Before(p.sim.blocked) && time.Since(p.sim.blockedAt) > blockedCheck {
		p.complain(nil, "%s claims, and the broker asks to wait", p.title())
	}
	p.mu.Unlock()
	c, err := statement(ctx, p, what, func() store.Claim {
		c := take(p.model, token, limit, lease, p.shuffle)
		p.mayCrash(p.failovers * (len(c.Events) + 20*c.Superseded))
		for _, e := range c.Events {
			p.say(p.title(), p.byID[e.ID], what+fmt.Sprintf(" %x", token[14:]))
		}
		return c
	})
	if err == nil && len(c.Events) > 0 {
		c.Events, err = statement(ctx, p, "read "+what, func() []store.Event {
			return slices.DeleteFunc(c.Events, func(e store.Event) bool { _, there := p.model.Rows[e.ID]; return !there })
		})
	}
	if ctx.Err() != context.Canceled && (err != nil || len(c.Events) == 0) {
		letGo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = p.Settle(letGo, store.Settlement{Token: token, End: true})
	}
	if err != nil {
		return store.Claim{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range c.Events {
		p.byID[e.ID].claimed = time.Now()
	}
	return c, nil
}

func (p *simStore) Settle(ctx context.Context, t store.Settlement) (store.Settled, error) {
	done, err := statement(ctx, p, "settle", func() store.Settled {
		for _, e := range t.Published {
			p.checkMark(p.byID[e.ID])
			p.say(p.title(), p.byID[e.ID], "marks")
		}
		before, held := maps.Clone(p.model.Rows), p.model.Claimed(t.Token)
		done := p.model.Settle(t)
		for _, f := range t.Failures {
			p.checkFailure(p.byID[f.ID], f, before[f.ID], slices.Contains(held, f.ID))
			p.say(p.title(), p.byID[f.ID], fmt.Sprintf("puts off for %s, halts %t: %s", f.Delay, f.Halt, f.Reason))
		}
		for _, id := range t.Halted {
			p.say(p.title(), p.byID[id], "halts")
		}
		for name := range t.Paused {
			p.say(p.title(), nil, "pauses "+name)
		}
		for _, name := range t.Resumed {
			p.say(p.title(), nil, "resumes "+name)
		}
		if t.Durable {
			p.undo = nil
		}
		return done
	})
	if err != nil {
		return store.Settled{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range t.Published {
		delete(p.confirms, e.ID)
	}
	return done, nil
}

func (p *simStore) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	held, err := statement(ctx, p, "renew", func() []uuid.UUID { return p.model.Renew(tokens, lease) })
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, token := range tokens {
			delete(p.forgotten, token) // the relay knows it now
			if !slices.Contains(held, token) {
				p.say(p.title(), nil, fmt.Sprintf("has lost the claim %x", token[14:]))
			}
		}
	}
	return held, err
}
