package relay

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// restart starts processes that were killed: each with a chance of one in so many calls.
func (s *sim) restart(calls int) {
	for _, p := range s.relays {
		if p.isDead() && !p.replaced && s.draw("start", calls) == 0 {
			p.replaced = true
			s.startRelay(p.name, p.run+1)
		}
	}
}

// injectFault lets something happen to everybody.
func (s *sim) injectFault() {
	n := s.draw("fault", 60)
	for _, what := range []struct {
		rate int
		do   func()
	}{
		{s.terms, func() { s.term(s.relays[s.draw("term", len(s.relays))], true) }},
		{s.dbAway, func() { s.startOutage(&s.database, 10*time.Second, "the database does not work") }},
		{s.away, func() { s.startOutage(&s.broker, 10*time.Second, "the broker is away"); s.loseSessions() }},
		{s.blocks, func() { s.startOutage(&s.blocked, 5*time.Second, "the broker asks to wait") }},
		{s.operators, s.operate},
	} {
		if n -= what.rate; n < 0 {
			what.do()
			return
		}
	}
}

func (s *sim) startOutage(of *outage, longest time.Duration, what string) {
	d, silent := s.upTo("outage", longest), s.draw("outage", 2) == 0
	s.mu.Lock()
	defer s.mu.Unlock()
	*of = outage{time.Now(), time.Now().Add(d), silent}
	s.say("", nil, what+" for "+d.String())
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

// chooseFault chooses what becomes of a message.
func (p *process) chooseFault(e *record) string {
	for _, f := range p.faults {
		if p.happens(e.title()+f.name, f.rate) || f.name == p.badTopic && e.isBad && !p.areFaultsOver() {
			return f.name
		}
	}
	return ""
}

// mayCrash lets the database crash soon, with a chance of rate in a thousand. The caller holds
// s.mu.
func (s *sim) mayCrash(rate int) {
	if s.random("crash").IntN(1000) < rate {
		time.AfterFunc(time.Duration(s.random("crash").IntN(int(10*time.Millisecond))), s.crash)
	}
}

// crash is a crash of the database: it forgets the last commits that did not wait for the disk.
func (s *sim) crash() {
	const writesWithin = 600 * time.Millisecond // three times wal_writer_delay
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faultsOver {
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
	for token, events := range s.model.Forgotten(old) {
		if s.claims[token] != nil { // it is no operator's
			s.forgotten[token] = events
			for _, id := range events {
				s.byID[id].revives = true
			}
		}
	}
	s.database = outage{from: time.Now(), until: time.Now().Add(time.Duration(s.random("failover").IntN(int(2 * time.Second))))}
	s.say("", nil, fmt.Sprintf("the database crashes, and forgets %d commits", n))
	for _, p := range s.relays {
		p.allowRepeats(0)
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

// resume ends the pauses of operators. The caller holds s.mu.
func (s *sim) resume() {
	for _, name := range s.operated {
		s.model.Resume(name)
		s.say("", nil, "an operator resumes "+name)
	}
	s.operated = nil
}

// replay replays all that has failed. The caller holds s.mu.
func (s *sim) replay() {
	for id, r := range s.model.Rows {
		if !r.FailedAt.IsZero() {
			s.model.Replay([]uuid.UUID{id})
			s.say("", s.byID[id], "an operator replays it")
		}
	}
}

// discard discards events in two transactions, between which others run. The caller holds s.mu.
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
			if e.revives {
				delete(s.newest, e.AggregateID)
			}
			s.say("", e, "an operator discards it")
		}
		s.undo = nil
		s.model.Settle(store.Settlement{Token: token, End: true})
	})
}

// resolve lets operators mend what waits for them. It returns how many events are left.
func (s *sim) resolve() (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume()
	s.replay()
	return len(s.model.Rows)
}
