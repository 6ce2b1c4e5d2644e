package relay

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

	replaced bool // by another run

	// Who uses these holds s.mu.
	stopping, dead bool
	stalled        time.Time          // until then
	mayRepeatUntil time.Time          // what it has sent until then may be sent once more
	sigtermAt      time.Time          // to end
	calls          map[*record]bool   // of a function, that have not returned
	confirms       map[uuid.UUID]bool // that it has got, and not recorded
}

func (p *process) title() string { return fmt.Sprintf("%s%d", p.name, p.run) }

func (p *process) isDead() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.dead }

// step is where the process may be stalled or killed. It reports whether it lives.
func (p *process) step(what string) bool {
	if p.happens("kill", p.kills) {
		p.kill(what)
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

func (p *process) kill(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return
	}
	p.dead, p.stopping = true, true
	p.say(p.title(), nil, "is killed at "+what)
	p.allowRepeats(time.Hour)
	p.cancel()
}

// mayStall stops the process at its next steps for a while, with a chance of rate in a thousand.
func (p *process) mayStall(what string, rate int) {
	if p.happens("stall", rate) {
		d := p.upTo("stall", 12*time.Second)
		p.mu.Lock()
		p.stalled = later(p.stalled, time.Now().Add(d))
		p.say(p.title(), nil, "is stalled at "+what+" for "+d.String())
		p.allowRepeats(d)
		p.mu.Unlock()
	}
}

// allowRepeats notes that what the process sends in this time may be sent once more: also until the
// next renewal, because its leases may be nearly over. The caller holds s.mu.
func (p *process) allowRepeats(d time.Duration) {
	p.mayRepeatUntil = later(p.mayRepeatUntil, time.Now().Add(d+renewEvery))
}

// draw, happens and upTo are those of sim, with streams of this process alone.
func (p *process) draw(stream string, n int) int {
	return p.sim.draw(p.title()+" "+stream, n)
}

func (p *process) happens(stream string, rate int) bool {
	return p.sim.happens(p.title()+" "+stream, rate)
}

func (p *process) upTo(stream string, d time.Duration) time.Duration {
	return p.sim.upTo(p.title()+" "+stream, d)
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
// database may commit after its client has given up.
func statement[R any](ctx context.Context, p *simStore, what string, do func() R) (result R, err error) {
	p.checkBytes()
	if !p.step(what) {
		return result, errDead
	}
	commit := commitOf(p, do)
	err = p.reach(ctx, what)
	switch {
	case err == nil && p.happens("refuse "+what, p.dbErrors):
		err = errDatabase
	case err == nil:
		if result, err = commit(); p.happens("answer to "+what, p.dbErrors) {
			err = errDatabase
		}
	case ctx.Err() != nil && p.draw("commits later", 2) == 0:
		p.mu.Lock()
		p.allowRepeats(10 * time.Second)
		p.mu.Unlock()
		time.AfterFunc(p.upTo(what, 3*time.Second), func() { _, _ = commit() })
	}
	if !p.step(what + ", answered") {
		return *new(R), errDead
	}
	if err != nil {
		p.mu.Lock()
		p.say(p.title(), nil, what+": "+err.Error())
		p.allowRepeats(0)
		p.mu.Unlock()
	}
	return result, err
}

// reach returns when the statement has reached a database that works, or fails.
func (p *simStore) reach(ctx context.Context, what string) error {
	delay := time.Millisecond/5 + p.upTo(what, 3*time.Millisecond)
	if p.happens("slow "+what, p.dbSlow) {
		delay = p.upTo(what, 8*time.Second)
		p.mu.Lock()
		p.say(p.title(), nil, what+" takes "+delay.String())
		p.allowRepeats(delay)
		p.mu.Unlock()
	}
	for Wait(ctx, delay) {
		p.mu.Lock()
		outage := p.database
		if outage.isOn() {
			p.allowRepeats(0)
		}
		p.mu.Unlock()
		switch {
		case !outage.isOn():
			return nil
		case !outage.silent:
			return errDatabase
		}
		delay = 100 * time.Millisecond
	}
	return ctx.Err()
}

// commitOf returns a function that commits, unless the database crashes before.
func commitOf[R any](p *simStore, do func() R) func() (R, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	crashes := p.crashes
	return func() (result R, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.crashes != crashes {
			return result, errDatabase
		}
		if p.dbCrashes > 0 {
			p.undo = append(p.undo, commit{time.Now(), p.model.Copy()})
		}
		p.mayCrash(p.dbCrashes)
		return do(), nil
	}
}

// shuffle lets the model choose any of the events that are free.
func (p *simStore) shuffle(rows []storetest.Row) {
	for i := range rows {
		if p.inOrder {
			return
		}
		j := p.random(p.title() + " shuffle").IntN(i + 1)
		rows[i], rows[j] = rows[j], rows[i]
	}
}

func (p *simStore) Claim(ctx context.Context, _ string, limit int, lease time.Duration) (store.Claim, error) {
	return p.claim(ctx, "claim", limit, lease, (*storetest.Model).Claim)
}

func (p *simStore) ClaimProbes(ctx context.Context, _ string, limit int, lease time.Duration) (store.Claim, error) {
	return p.claim(ctx, "claim of probes", limit, lease, func(m *storetest.Model, token uuid.UUID, limit int, lease time.Duration, order func([]storetest.Row)) store.Claim {
		return m.ClaimProbes(token, limit, lease, func(rows []storetest.Row) {
			order(rows)
			slices.SortStableFunc(rows, func(a, b storetest.Row) int { return a.RetryCount - b.RetryCount })
		})
	})
}

// claim is a transaction. Then it reads the events, and does as Store.finishClaim.
func (p *simStore) claim(ctx context.Context, what string, limit int, lease time.Duration, take func(*storetest.Model, uuid.UUID, int, time.Duration, func([]storetest.Row)) store.Claim) (store.Claim, error) {
	p.mu.Lock()
	p.tokens++
	token := simID(2, p.tokens)
	p.claims[token] = p.process
	p.checkClaim()
	p.mu.Unlock()
	c, err := statement(ctx, p, what, func() store.Claim {
		c := take(p.model, token, limit, lease, p.shuffle)
		p.mayCrash(p.dbCrashes * (len(c.Events) + 20*c.Superseded))
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
	if err != nil || len(c.Events) == 0 {
		letGo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = p.Settle(letGo, store.Settlement{Token: token, End: true})
	}
	if err != nil {
		return store.Claim{}, err
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
