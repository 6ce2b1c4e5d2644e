package relay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/internal/storetest"
	"example.com/transactional-outbox/outbox/publish"
)

// history is what has happened to each event. It checks the promises.
type history struct {
	events    []*record
	byID      map[uuid.UUID]*record
	newest    map[string]int            // the newest version of an aggregate that was begun
	claims    map[uuid.UUID]*process    // who has them
	forgotten map[uuid.UUID][]uuid.UUID // the events of claims that a crash has lost, until their relay knows
	sessions  []*simSession
	operated  []string // topics that an operator has paused
	trail     []line
	failure   string
	failed    *record
}

// record is the history of one event.
type record struct {
	store.Event

	*sim
	number    int
	due       time.Time
	ended     time.Time
	by        *process // which has sent it last
	at        time.Time
	stored    bool   // by the destination
	answered  bool   // with a confirm
	invalid   bool   // the destination has said so
	reason    string // why it may be sent once more
	refusals  int    // how many attempts may count
	counted   int
	discarded bool
	revives   bool // a crash has forgotten its claim: what that has superseded is due again, and it may be sent all the same
	lost      int  // how often its connection was lost
	sent      int  // how often it was sent
	isBad     bool // it has the fault of profile.badTopic
}

// line is a step.
type line struct {
	at    time.Time
	relay string
	event *record
	step  string
}

func newHistory() history {
	return history{byID: map[uuid.UUID]*record{}, newest: map[string]int{}, claims: map[uuid.UUID]*process{}, forgotten: map[uuid.UUID][]uuid.UUID{}}
}

func (e *record) title() string { return fmt.Sprintf("%d", e.number) }

func (s *sim) of(id uuid.UUID) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// say adds a step to the trail. The caller holds s.mu.
func (s *sim) say(relay string, e *record, step string) {
	s.trail = append(s.trail, line{time.Now(), relay, e, step})
}

// violation notes that a promise is broken. The first one counts. The caller holds s.mu.
func (s *sim) violation(of *record, format string, values ...any) {
	if s.failure == "" {
		s.failed = of
		s.say("", of, fmt.Sprintf(format, values...))
		s.failure = s.trail[len(s.trail)-1].in(s)
	}
}

func (s *sim) reportViolation(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violation(nil, format, values...)
}

func (s *sim) isGood() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.failure == "" }

// append commits an event.
func (s *sim) append(e store.Event, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.events {
		if e.Aggregate != "" && o.AggregateID == e.AggregateID {
			e.Version = o.Version
		}
	}
	if e.Aggregate != "" {
		e.Version++
	}
	e.ID, e.Seq = simID(1, len(s.events)), int64(len(s.events))
	r := &record{Event: e, sim: s, number: len(s.events), due: time.Now().Add(delay), isBad: s.badTopic != "" && e.Topic == "t0"}
	s.events, s.byID[e.ID] = append(s.events, r), r
	s.say("", r, fmt.Sprintf("is appended, supersedes %t, due in %s", e.Supersedes, delay))
	s.model.Append(e, delay)
	s.undo = nil // the commit waits for the disk
}

// isForgotten reports whether the database has lost a claim of the event, and a process that does
// not know it may send the event. The caller holds s.mu.
func (s *sim) isForgotten(e *record) bool {
	for token, ids := range s.forgotten {
		if slices.Contains(ids, e.ID) && !s.claims[token].dead {
			return true
		}
	}
	return false
}

// begin is the moment at which a message is sent.
func (p *process) begin(e *record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(p.title(), e, "is sent")
	isForgotten := p.isForgotten(e)
	switch done := p.model.Done[e.ID]; {
	case isForgotten:
	case p.claims[p.model.Holder(e.ID)] != p:
		p.violation(e, "P6: %s sends it, and has no claim of it", p.title())
	case e.Aggregate != "" && e.Version < p.newest[e.AggregateID] && !e.stored:
		p.violation(e, "P7: it is sent after version %d", p.newest[e.AggregateID])
	case done == "superseded" || done == "discarded":
		p.violation(e, "P7: it is sent after it was %s", done)
	}
	if p.stopping && time.Since(p.sigtermAt) > 0 && p.stalled.Before(p.sigtermAt) {
		p.violation(e, "P12: %s sends it after SIGTERM", p.title())
	}
	if e.by != nil && e.reason == "" && e.by.mayRepeatUntil.Before(e.at) && !isForgotten {
		p.violation(e, "it is sent once more without a reason")
	}
	e.sent++
	if e.by, e.at, e.reason = p, time.Now(), ""; isForgotten {
		e.reason = "the database has forgotten the claim"
	}
	if e.Aggregate != "" {
		p.newest[e.AggregateID] = max(p.newest[e.AggregateID], e.Version)
	}
}

// calling notes that a call begins or returns.
func (p *process) calling(e *record, begins bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if begins && p.calls[e] {
		p.violation(e, "P6: %s sends it, and another call has not returned", p.title())
	}
	p.calls[e] = begins
}

// deliver is the moment at which the destination has the message.
func (p *process) deliver(e *record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.stored = true
	p.say("", e, "is stored")
}

// mayDeliver stores one of two messages.
func (p *process) mayDeliver(e *record) {
	if p.draw(e.title(), 2) == 0 {
		p.deliver(e)
	}
}

var outcomes = [...]string{"unknown", "confirmed", "returned", "refused", "invalid", "not sent"}

// got is the moment at which a process gets an answer.
func (p *process) got(e *record, r publish.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(p.title(), e, fmt.Sprintf("gets the answer %s, %v", outcomes[r.Outcome], r.Err))
	if r.Outcome == publish.Confirmed {
		e.answered = true
		p.confirms[e.ID] = true
	}
}

// mayRepeat notes why the event may be sent once more.
func (p *process) mayRepeat(e *record, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.reason = why
	p.say(p.title(), e, why)
}

// addRefusal notes that the destination has given a reason to count an attempt.
func (e *record) addRefusal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusals++
}

// isLostOften reports whether it may be the event's fault that its connections are lost.
func (e *record) isLostOften(why error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost++
	return e.lost > 1 && errors.Is(why, errLost)
}

// checkMark checks a mark. The caller holds s.mu.
func (s *sim) checkMark(e *record) {
	if !e.answered {
		s.violation(e, "P3: it is marked without a confirm")
	}
	if e.ended.IsZero() {
		e.ended = time.Now()
	}
}

// checkFailure checks a failure that is written. The caller holds s.mu.
func (p *process) checkFailure(e *record, f store.Failure, before storetest.Row, isHeld bool) {
	now, there := p.model.Rows[e.ID]
	hasFailed := there && now.FailedAt != before.FailedAt
	if there && !isHeld && (now.RetryCount != before.RetryCount || hasFailed) {
		p.violation(e, "P12: %s changes it, and its claim does not hold it", p.title())
	}
	if hasFailed && f.Final && !e.invalid {
		p.violation(e, "P4: it has failed, and a destination could take it")
	}
	if !f.Counts || now.RetryCount <= before.RetryCount {
		return
	}
	if e.counted++; e.counted > e.refusals && p.mayRepeatUntil.Before(e.at) {
		p.violation(e, "P4: %d attempts count, and the destination has refused %d", e.counted, e.refusals)
	}
}

// checkClaim checks when a relay claims. The caller holds s.mu.
func (p *process) checkClaim() {
	switch isStalled := !p.stalled.Before(time.Now().Add(-time.Second)); {
	case isStalled || p.dead:
	case p.stopping && time.Since(p.sigtermAt) > 100*time.Millisecond:
		p.violation(nil, "P12: %s claims after SIGTERM", p.title())
	case p.blocked.isOn() && time.Since(p.blocked.from) > blockedCheck:
		p.violation(nil, "P4: %s claims, and the broker asks to wait", p.title())
	}
}

// checkBytes checks the relay's own count of what is in flight: startRelay checks that it ends at
// 0. The last payload of each claim may be above the bound, and probes are.
func (p *process) checkBytes() {
	if n, limit := p.relay.bytes.Load(), int64(maxBytes+(p.workers+p.topics)*len(large)); n > limit {
		p.reportViolation("%s has %d bytes in flight, more than %d", p.title(), n, limit)
	}
}

// checkTerm checks a process that has ended because of SIGTERM.
func (s *sim) checkTerm(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := p.relay.config.ShutdownTimeout + lastStatementTimeout + 100*time.Millisecond
	if took := time.Since(p.sigtermAt); took > limit && p.stalled.Before(p.sigtermAt) {
		s.violation(nil, "P12: %s needed %s to end", p.title(), took)
	}
	if !p.mayRepeatUntil.Before(p.sigtermAt) {
		return
	}
	for id := range p.confirms {
		s.violation(s.byID[id], "P12: %s has ended, and has not recorded a confirm", p.title())
	}
}

// longestDelay is how long a topic that fails may delay an event of another one. A connection that
// the broker does not read, and a late answer in a slow start: the confirm timeout and a little.
func (s *sim) longestDelay() time.Duration {
	if s.badTopic == "unread" || s.badTopic == "late" {
		return 12 * time.Second
	}
	return 3 * time.Second
}

func (s *sim) checkEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		status := s.model.Status(e.ID)
		hasNewer := slices.ContainsFunc(s.events, func(o *record) bool {
			return o.AggregateID == e.AggregateID && o.Version > e.Version && o.Supersedes
		})
		switch took := e.ended.Sub(e.due); {
		case status == "published" && !e.stored, status == "superseded" && !hasNewer, status == "discarded" && !e.discarded, status == "":
			s.violation(e, "P4: it is lost: status %q", status)
		case s.model.Done[e.ID] == "":
			s.violation(e, "P4: it does not end: status %q", status)
		case s.badTopic != "" && e.Topic != "t0" && status == "published" && took > s.longestDelay():
			s.violation(e, "P4: another topic has delayed it by %s", took)
		}
	}
	for _, p := range s.relays {
		for id := range p.confirms {
			if !p.stopping {
				s.violation(s.byID[id], "P4: %s does not record the confirm that it has got", p.title())
			}
		}
	}
}

// table is the trail of a violation: the steps of the event's aggregate, and those of all.
func (s *sim) table() string {
	table := fmt.Sprintf("%10s  %-5s %-10s %s\n", "seconds", "relay", "event", "step")
	for _, l := range s.trail {
		isOther := s.failed != nil && l.event != nil && l.event != s.failed && (l.event.Aggregate == "" || l.event.AggregateID != s.failed.AggregateID)
		if !isOther {
			table += l.in(s) + "\n"
		}
	}
	return table
}

func (l line) in(s *sim) string {
	event := ""
	if e := l.event; e != nil {
		event = fmt.Sprintf("%d %s%d/%s", e.number, e.AggregateID, e.Version, e.Topic)
	}
	return fmt.Sprintf("%10.4f  %-5s %-10s %s", l.at.Sub(s.start).Seconds(), l.relay, event, l.step)
}
