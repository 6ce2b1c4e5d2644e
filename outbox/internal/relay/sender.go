package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// sender sends events through a session. It opens a publisher for the first of them, and another
// one after a publisher was lost. Its worker and the worker's batches use it.
type sender struct {
	config     *Config
	session    publish.Session
	isOneByOne bool            // the session is a publish.OneByOne
	ctx        context.Context // ends with the session or the relay, or if the session is left: nothing more is begun
	finish     context.CancelFunc
	pace       *pace
	unanswered *unanswered
	changed    chan struct{} // wakes the worker: tend may have something to do

	// These belong to the worker.
	err   error   // there is no other publisher on this session
	alone []*item // to be sent when no other event waits for an answer

	mu        sync.Mutex
	writer    *writer   // nil: none is open
	inFlight  int       // events that wait for an answer
	quiet     time.Time // of the last answer, first write or check
	lateUntil time.Time // an answer may come to an event whose batch has given up, and still counts
}

// send sends the events of a batch. Those that have ended a session before are sent alone, later.
func (s *sender) send(b *batch, items []*item) {
	var together []*item
	for _, it := range items {
		if it.event.EndedSession && !s.isOneByOne {
			s.alone = append(s.alone, it)
		} else {
			together = append(together, it)
		}
	}
	s.write(group{b, together})
	s.sendAlone()
}

// sendAlone sends an event that has ended a session before, as soon as nothing else waits for an
// answer.
func (s *sender) sendAlone() {
	s.mu.Lock()
	isIdle := s.inFlight == 0 && s.ctx.Err() == nil && (s.writer == nil || !s.writer.isLost)
	s.mu.Unlock()
	if isIdle && len(s.alone) > 0 {
		it := s.alone[0]
		s.alone = s.alone[1:]
		s.write(group{it.batch, []*item{it}})
	}
}

// write hands events to the writer. The queue has room for them: see isReady.
func (s *sender) write(g group) {
	if len(g.items) == 0 {
		return
	}
	s.mu.Lock()
	if s.inFlight == 0 {
		s.quiet = time.Now()
	}
	for _, it := range g.items {
		it.inFlight = true
	}
	s.inFlight += len(g.items)
	if s.writer == nil {
		s.writer = newWriter(s)
	}
	queue := s.writer.queue
	s.mu.Unlock()
	queue <- g
}

// isReady reports whether events that are claimed now can be sent.
func (s *sender) isReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alone) == 0 && (s.writer == nil || !s.writer.isLost && len(s.writer.queue) < maxQueue)
}

// answered gives an answer to the batch.
func (s *sender) answered(it *item, r publish.Result) {
	it.batch.answers.add(answer{item: it, outcome: s.note(it, r), err: r.Err})
}

// note counts an answer, and finds out whether the publisher has ended because of the event.
func (s *sender) note(it *item, r publish.Result) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = time.Now()
	o := outcomeOf(r)
	if !it.inFlight {
		return o // the batch has given up
	}
	it.inFlight = false
	s.inFlight--
	switch {
	case o == lost && s.writer != nil: // the relay has not closed it itself
		s.lose()
		s.writer.unknown++
		switch isAlone := s.writer.unknown == 1 && s.inFlight == 0 && !time.Now().Before(s.lateUntil); {
		case s.isOneByOne: // it says of each event what became of it
		case !isAlone:
			s.pace.restart(1)
		case errors.Is(r.Err, publish.ErrClosed):
			o = closedAlone
		default:
			o = lostAlone
		}
	case o == notSent && !s.isOneByOne && s.ctx.Err() == nil:
		s.lose() // a session that answers one by one goes on with others
	}
	if s.inFlight == 0 {
		signal(s.changed)
	}
	return o
}

// lose notes that the publisher has ended. It begins nothing more.
func (s *sender) lose() {
	if s.writer != nil {
		s.writer.isLost = true
		s.writer.finish()
	}
}

// forget notes that the batch of an event waits no more for its answer.
func (s *sender) forget(it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lateUntil = time.Now().Add(s.config.ConfirmTimeout)
	if it.inFlight {
		it.inFlight = false
		s.inFlight--
	}
	if s.inFlight == 0 {
		signal(s.changed)
	}
}

// awaitsLate reports whether a late answer may come. If the session did not wait for it, a
// destination that is a little too slow would get the same events for ever.
func (s *sender) awaitsLate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.lateUntil)
}

// tend closes a publisher that was lost, as soon as all that it had has an answer, and sends what
// goes alone. It reports whether it has closed one.
func (s *sender) tend(until context.Context) (wasLost bool) {
	s.mu.Lock()
	wasLost = s.writer != nil && s.writer.isLost && s.inFlight == 0
	s.mu.Unlock()
	if wasLost {
		s.close(until)
	}
	s.sendAlone() //nolint:contextcheck // the sender has a context of its own
	return wasLost
}

// end begins nothing more, and answers what is not begun.
func (s *sender) end() {
	s.finish()
	s.mu.Lock()
	writer := s.writer
	s.mu.Unlock()
	if writer != nil {
		writer.giveBack(notBegun)
	}
	for _, it := range s.alone {
		s.answered(it, notBegun)
	}
	s.alone = nil
}

// close ends the publisher, and waits for the answers to everything, but only until a context ends.
func (s *sender) close(until context.Context) {
	s.mu.Lock()
	writer := s.writer
	s.writer, s.lateUntil = nil, time.Time{}
	s.mu.Unlock()
	if writer == nil {
		return
	}
	closed := writer.close()
	if s.ctx.Err() != nil && !writer.isOpen() {
		return // it has nothing, and may open only much later
	}
	select {
	case s.err = <-closed:
	case <-until.Done():
	}
}

// notBegun is the answer to an event that is not begun, because the session or Run has ended.
var notBegun = publish.Result{Outcome: publish.NotSent, Err: fmt.Errorf("%w: %w", publish.ErrNotSent, context.Canceled)}
