package outbox

import (
	"errors"
	"sync"
	"time"

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

func newAnswers() answers { return answers{some: make(chan struct{}, 1)} }

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
	case v.unknown && result.Outcome == publish.Unknown:
		w.lost = append(w.lost, answer{item: it, result: result})
		it.set(lost)
		w.losePublisher()
		return // findCause decides
	case v.unknown && !w.oneByOne && w.phase != replaced: // a session that answers one by one goes on with others
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

// findCause looks for the event that made the publisher end. It runs when all that the publisher had
// in flight has an answer.
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
