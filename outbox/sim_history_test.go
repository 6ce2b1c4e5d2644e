package outbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/internal/storetest"
	"example.com/transactional-outbox/outbox/publish"
)

// history is what has happened to each event. It checks the promises. Methods that take no lock say
// so: their caller has it.
type history struct {
	events    []*record
	byID      map[uuid.UUID]*record
	newest    map[string]int            // the newest version of an aggregate that was begun
	forgotten map[uuid.UUID][]uuid.UUID // claims that the database has lost, until their relay knows
	sessions  []*simSession
	operated  []string // topics that an operator has paused
	trail     []line
	bad       string
	about     *record
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
	claimed   time.Time // when a process has got it last
	stored    bool      // by the destination
	answered  bool      // with a confirm
	excuse    string    // why it may be sent once more
	credit    int       // how many attempts may count
	counted   int
	discarded bool
	lost      int // how often its connection was lost
}

// line is a step.
type line struct {
	at    time.Time
	relay string
	event *record
	step  string
}

func newHistory() history {
	return history{byID: map[uuid.UUID]*record{}, newest: map[string]int{}, forgotten: map[uuid.UUID][]uuid.UUID{}}
}

func (e *record) title() string { return fmt.Sprintf("%d", e.number) }

func (s *sim) of(id uuid.UUID) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// say takes no lock.
func (s *sim) say(relay string, e *record, step string) {
	s.trail = append(s.trail, line{time.Now(), relay, e, step})
}

func (p *process) note(e *record, step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(p.title(), e, step)
}

// complain takes no lock. The first complaint counts.
func (s *sim) complain(about *record, format string, values ...any) {
	if s.bad == "" {
		s.bad, s.about = fmt.Sprintf(format, values...), about
		s.say("", about, s.bad)
	}
}

func (s *sim) fail(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complain(nil, format, values...)
}

func (s *sim) isGood() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.bad == "" }

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
	r := &record{Event: e, sim: s, number: len(s.events), due: time.Now().Add(delay)}
	s.events, s.byID[e.ID] = append(s.events, r), r
	s.say("", r, fmt.Sprintf("is appended, supersedes %t, due in %s", e.Supersedes, delay))
	s.model.Append(e, delay)
	s.undo = nil // the commit waits for the disk
}

// isForgotten reports whether the database has lost a claim of the event. It takes no lock.
func (s *sim) isForgotten(e *record) bool {
	for _, ids := range s.forgotten {
		if slices.Contains(ids, e.ID) {
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
	case e.Aggregate != "" && e.Version < p.newest[e.AggregateID] && !e.stored:
		p.complain(e, "P7: it is sent after version %d", p.newest[e.AggregateID])
	case done == "superseded" || done == "discarded":
		p.complain(e, "P7: it is sent after it was %s", done)
	}
	if p.stopping && e.claimed.Before(p.asked) && time.Since(p.asked) > 100*time.Millisecond && p.stalled.Before(p.asked) {
		p.complain(e, "P12: %s sends it after SIGTERM", p.title())
	}
	if e.by != nil && e.excuse == "" && e.by.trouble.Before(e.at) && !isForgotten {
		p.complain(e, "it is sent once more without a reason")
	}
	if e.by, e.at, e.excuse = p, time.Now(), ""; isForgotten {
		e.excuse = "the database has forgotten the claim"
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
		p.complain(e, "P6: %s sends it, and another call has not returned", p.title())
	}
	p.calls[e] = begins
}

// store is the moment at which the destination has the message.
func (p *process) store(e *record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.stored = true
	p.say("", e, "is stored")
}

// mayStore stores one of two messages.
func (p *process) mayStore(e *record) {
	if p.draw(e.title(), 2) == 0 {
		p.store(e)
	}
}

// got is the moment at which a process gets an answer.
func (p *process) got(e *record, r publish.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(p.title(), e, fmt.Sprintf("gets the answer %d, %v", r.Outcome, r.Err))
	if r.Outcome == publish.Confirmed {
		e.answered = true
		p.confirms[e.ID] = true
	}
}

// excuse is why the event may be sent once more.
func (p *process) excuse(e *record, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.excuse = why
	p.say(p.title(), e, why)
}

// mayCount notes that the destination has given a reason to count an attempt.
func (e *record) mayCount() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.credit++
}

// isLostOften reports whether it may be the event's fault that its connections are lost.
func (e *record) isLostOften() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost++
	return e.lost >= causeAfter
}

// checkMark takes no lock.
func (s *sim) checkMark(e *record) {
	if !e.answered {
		s.complain(e, "P3: it is marked without a confirm")
	}
	if e.ended.IsZero() {
		e.ended = time.Now()
	}
}

// checkFailure takes no lock.
func (p *process) checkFailure(e *record, f store.Failure, before storetest.Row, isHeld bool) {
	now, there := p.model.Rows[e.ID]
	if there && !isHeld && (now.RetryCount != before.RetryCount || now.FailedAt != before.FailedAt) {
		p.complain(e, "P12: %s changes it, and its claim does not hold it", p.title())
	}
	if !f.Counts || now.RetryCount <= before.RetryCount {
		return
	}
	if e.counted++; e.counted > e.credit && p.trouble.Before(e.at) {
		p.complain(e, "P4: %d attempts count, and the destination has refused %d", e.counted, e.credit)
	}
}

// checkBytes checks what is in flight. At the end of a relay it must be nothing, so the relay counts
// as it should. Events of trials come on top of what the workers claim at the same time.
func (p *process) checkBytes() {
	if n, limit := p.relay.bytes.Load(), int64(maxBytes+(p.workers+p.topics)*len(large)); n > limit {
		p.fail("%s has %d bytes in flight, more than %d", p.title(), n, limit)
	}
}

// checkTerm checks a process that has ended because of SIGTERM.
func (s *sim) checkTerm(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := p.relay.config.ShutdownTimeout + lastStatementTimeout + 100*time.Millisecond
	if took := time.Since(p.asked); took > limit && p.stalled.Before(p.asked) {
		s.complain(nil, "P12: %s needed %s to end", p.title(), took)
	}
	for id := range p.confirms {
		if !p.trouble.Before(p.asked) {
			break
		}
		s.complain(s.byID[id], "P12: %s has ended, and has not recorded a confirm", p.title())
	}
}

// longestDelay is how long a topic that fails may delay an event of another one. A connection that
// the broker does not read delays what was sent on it.
func (s *sim) longestDelay() time.Duration {
	if s.badTopic == "unread" && !s.oneByOne {
		return 12 * time.Second // the confirm timeout, and a little
	}
	return 2 * time.Second
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
			s.complain(e, "P4: it is lost, and %q", status)
		case len(s.model.Rows) > 0 && s.model.Done[e.ID] == "":
			s.complain(e, "P4: it does not end, and is %q", status)
		case s.badTopic != "" && e.Topic != "t0" && status == "published" && took > s.longestDelay():
			s.complain(e, "P4: another topic has delayed it by %s", took)
		}
	}
	for _, p := range s.relays {
		for id := range p.confirms {
			if !p.stopping {
				s.complain(s.byID[id], "P4: %s does not record the confirm that it has got", p.title())
			}
		}
	}
}

// table is the trail of a complaint: the steps of the event's aggregate, and those of all.
func (s *sim) table() string {
	var table strings.Builder
	fmt.Fprintf(&table, "%10s  %-5s %-10s %s\n", "seconds", "relay", "event", "step")
	for _, l := range s.trail {
		event := ""
		if e := l.event; e != nil {
			if s.about != nil && e != s.about && (e.Aggregate == "" || e.AggregateID != s.about.AggregateID) {
				continue
			}
			event = fmt.Sprintf("%d %s%d/%s", e.number, e.AggregateID, e.Version, e.Topic)
		}
		fmt.Fprintf(&table, "%10.4f  %-5s %-10s %s\n", l.at.Sub(s.start).Seconds(), l.relay, event, l.step)
	}
	return table.String()
}
