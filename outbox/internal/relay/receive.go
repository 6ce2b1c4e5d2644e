package relay

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/publish"
)

// answer is what a publisher says about a message, or that it has begun a batch.
type answer struct {
	*item
	result publish.Result

	begun *batch
	at    time.Time
}

// answers are those that the worker has not received yet.
type answers struct {
	mu   sync.Mutex
	list []answer
	some chan struct{} // wakes the worker
}

func (a *answers) add(one answer) {
	a.mu.Lock()
	a.list = append(a.list, one)
	isFirst := len(a.list) == 1
	a.mu.Unlock()
	if isFirst { // for the others the worker is awake already
		signal(a.some)
	}
}

func (a *answers) take() []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.list
	a.list = nil
	return all
}

// receive takes the answers that have come, and decides about each event.
func (w *worker) receive() {
	for _, a := range w.answers.take() {
		if a.begun != nil {
			a.begun.sentAt = a.at
			continue
		}
		w.quiet = time.Now()
		w.accept(a.item, a.result)
	}
	if w.sender != nil && w.sender.lost && w.inFlight.count(sent) == 0 {
		w.findCause()
		w.closePublisher()
		w.notBefore = time.Now().Add(lossPause)
	}
}

// accept decides about an event by its answer.
func (w *worker) accept(it *item, result publish.Result) {
	if it.state == decided || it.state == recorded { // the worker has given up waiting
		if result.Outcome == publish.Confirmed && !it.verdict.published {
			w.late = append(w.late, it.event)
		}
		return
	}
	v := w.decide(it.event, result, w.trials)
	switch {
	case v.released && result.Outcome == publish.Unknown:
		w.lost = append(w.lost, answer{item: it, result: result})
		it.set(lost)
		w.losePublisher()
		return // findCause decides
	case v.released && !w.oneByOne && w.phase != replaced: // a session that answers one by one goes on with others
		w.losePublisher()
	case result.Outcome == publish.Confirmed, result.Outcome == publish.Returned, result.Outcome == publish.Refused:
		w.losses.remove(it.event.ID)
	}
	it.decide(v)
	w.report(it, result)
}

// losePublisher notes that the publisher has ended. It sends nothing more.
func (w *worker) losePublisher() {
	if w.sender != nil {
		w.sender.lost = true
		w.sender.finish()
	}
}

// findCause looks for the event that made the publisher end. It runs when all that the publisher
// had in flight has an answer.
func (w *worker) findCause() {
	for _, a := range w.lost {
		if w.losses.add(a.event.ID, len(w.lost) == 1, errors.Is(a.result.Err, publish.ErrClosed), w.topics.lastTakenOfAll()) {
			a.result.Outcome = publish.Refused
		}
		a.decide(w.decide(a.event, a.result, w.trials))
		w.report(a.item, a.result)
	}
	w.lost, w.group = nil, 0
}

// losses are the events that were in flight when a publisher ended, and may be the cause. A message
// can make RabbitMQ close a channel, and a bad one can end a connection. An event is sent apart
// from the others if the destination has closed a publisher that it was sent with, or if the
// connection was lost twice in a row with it.
type losses struct {
	mu     sync.Mutex
	events map[uuid.UUID]loss
}

type loss struct {
	times int // in a row
	since time.Time
}

const (
	apartAfter = 2
	// An event that is alone when the connection is lost is the cause only if that happens again, and
	// the destination takes others meanwhile. Somebody may cut connections every second.
	causeAfter = 4
	maxLosses  = 50_000
)

func newLosses() *losses { return &losses{events: map[uuid.UUID]loss{}} }

// has reports whether the event must be sent apart.
func (l *losses) has(id uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[id].times >= apartAfter
}

// add notes that a publisher has ended with the event. It reports whether the event is the cause.
func (l *losses) add(id uuid.UUID, alone, closed bool, othersTaken time.Time) (cause bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) >= maxLosses {
		clear(l.events)
	}
	event := l.events[id]
	if event.times++; event.times == 1 {
		event.since = time.Now()
	}
	if closed {
		event.times = max(event.times, apartAfter)
	}
	if alone && (closed || event.times >= causeAfter && othersTaken.After(event.since)) {
		event, cause = loss{apartAfter, time.Now()}, true // so the next time it is alone at once
	}
	l.events[id] = event
	return cause
}

// remove notes that the destination has answered.
func (l *losses) remove(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.events, id)
}
