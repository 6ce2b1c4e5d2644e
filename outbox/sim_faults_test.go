package outbox

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// restart starts processes that were killed: each of them in one of so many calls.
func (s *sim) restart(calls int) {
	for _, p := range s.relays {
		if p.isDead() && !p.replaced && s.draw("start", calls) == 0 {
			p.replaced = true
			s.startRelay(p.name, p.run+1)
		}
	}
}

// strike lets something happen to everybody.
func (s *sim) strike() {
	n := s.draw("strike", 60)
	for _, what := range []struct {
		rate int
		do   func()
	}{
		{s.terms, func() { s.term(s.relays[s.draw("term", len(s.relays))], true) }},
		{s.dbAway, func() { s.weather(&s.database, "the database") }},
		{s.away, func() { s.weather(&s.broker, "the broker"); s.loseSessions() }},
		{s.blocks, s.block},
		{s.operators, s.operate},
	} {
		if n -= what.rate; n < 0 {
			what.do()
			return
		}
	}
}

func (s *sim) weather(of *weather, name string) {
	d, silent := s.upTo("weather", 10*time.Second), s.draw("weather", 2) == 0
	s.mu.Lock()
	defer s.mu.Unlock()
	*of = weather{time.Now().Add(d), silent}
	s.say("", nil, fmt.Sprintf("%s is away for %s, silent %t", name, d, silent))
}

func (s *sim) loseSessions() {
	s.mu.Lock()
	sessions := s.sessions
	s.sessions = nil
	s.mu.Unlock()
	for _, session := range sessions {
		session.lose()
	}
}

func (s *sim) block() {
	d := s.upTo("block", 5*time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blockedAt, s.blocked = time.Now(), time.Now().Add(d)
	s.say("", nil, "the broker asks to wait for "+d.String())
}

// fate chooses what becomes of a message.
func (p *process) fate(e *record) string {
	for _, f := range p.fates {
		if p.happens(e.title()+f.name, f.rate) || f.name == p.badTopic && e.Topic == "t0" && !p.isCalm() {
			return f.name
		}
	}
	return ""
}

// mayCrash takes no lock. The database crashes soon, so often in a thousand.
func (s *sim) mayCrash(rate int) {
	if s.random("crash").IntN(1000) < rate {
		time.AfterFunc(time.Duration(s.random("crash").IntN(int(10*time.Millisecond))), s.failOver)
	}
}

// failOver is a crash of the database: it forgets the last commits that did not wait for the disk.
func (s *sim) failOver() {
	const writesWithin = 600 * time.Millisecond // three times wal_writer_delay
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm {
		return
	}
	forget := s.random("forget").IntN(20)
	s.crashes++
	old, n := s.model.Copy(), 0
	for n < forget && n < len(s.undo) && time.Since(s.undo[len(s.undo)-1-n].at) < writesWithin {
		n++
	}
	if n > 0 {
		*s.model = *s.undo[len(s.undo)-n].before
	}
	s.undo = nil
	for _, token := range old.Tokens() {
		if len(s.model.Claimed(token)) < len(old.Claimed(token)) {
			s.forgotten[token] = old.Claimed(token)
		}
	}
	s.database = weather{until: time.Now().Add(time.Duration(s.random("failover").IntN(int(2 * time.Second))))}
	s.say("", nil, fmt.Sprintf("the database crashes, and forgets %d commits", n))
	for _, p := range s.relays {
		p.isInTrouble(0)
	}
}

// operate is a decision of an operator.
func (s *sim) operate() {
	name := []string{"t0", "t1", "t2", store.AllTopics}[s.draw("operate", 4)]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undo = nil
	switch s.random("operate").IntN(5) {
	case 0:
		s.model.Pause(name)
		s.operated = append(s.operated, name)
		s.say("", nil, "an operator pauses "+name)
	case 1:
		s.resume()
	case 2:
		s.replay()
	default:
		s.discard()
	}
}

// resume takes no lock. It ends the pauses of operators.
func (s *sim) resume() {
	for _, name := range s.operated {
		s.model.Resume(name)
		s.say("", nil, "an operator resumes "+name)
	}
	s.operated = nil
}

// replay takes no lock.
func (s *sim) replay() {
	for id, r := range s.model.Rows {
		if !r.FailedAt.IsZero() {
			s.model.Replay([]uuid.UUID{id})
			s.say("", s.byID[id], "an operator replays it")
		}
	}
}

// discard takes no lock. Between its two transactions, others run.
func (s *sim) discard() {
	s.tokens++
	token, ids := simID(2, s.tokens), []uuid.UUID(nil)
	for range 3 {
		ids = append(ids, s.events[s.random("discard").IntN(len(s.events))].ID)
	}
	s.model.Hold(token, ids)
	in := time.Duration(s.random("discard").IntN(int(40 * time.Millisecond)))
	time.AfterFunc(in, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range s.model.Discard(token, ids) {
			e := s.byID[id]
			e.discarded = true
			if s.isForgotten(e) { // it may be sent all the same, and its older ones are not superseded any more
				delete(s.newest, e.AggregateID)
			}
			s.say("", e, "an operator discards it")
		}
		s.undo = nil
		s.model.Settle(store.Settlement{Token: token, End: true})
	})
}

// operateInCalm lets operators mend what waits for them. It returns how many events are left.
func (s *sim) operateInCalm() (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume()
	s.replay()
	return len(s.model.Rows)
}
