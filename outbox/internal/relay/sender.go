package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	topics     *topics
	losses     *losses
	unanswered *unanswered
	changed    chan struct{} // wakes the worker: tend may have something to do

	// These belong to the worker.
	err   error   // there is no other publisher on this session
	apart []*item // to be sent when no other event waits for an answer
	group int     // how many of them were sent together the last time

	isLeft   atomic.Bool // another session takes the place of this one
	mu       sync.Mutex
	writer   *writer   // nil: none is open
	inFlight int       // events that wait for an answer
	quiet    time.Time // since when there is no answer, or nobody has looked
	lost     []answer  // what has no answer, since the publisher was lost
}

// send sends the events of a batch. Those that may have ended a publisher are sent apart, later.
func (s *sender) send(b *batch, items []*item) {
	var together []*item
	for _, it := range items {
		if s.losses.has(it.event.ID) {
			s.apart = append(s.apart, it)
		} else {
			together = append(together, it)
		}
	}
	s.write(group{b, together})
	s.sendApart()
}

// sendApart sends events that may have ended a publisher, as soon as nothing else waits for an
// answer: first one, and after each success twice as many. So the one among thousands that ends a
// publisher is soon alone. Those of a paused topic wait with their topic.
func (s *sender) sendApart() {
	for len(s.apart) > 0 && s.isIdle() {
		s.group = max(1, 2*s.group)
		g := group{batch: s.apart[0].batch}
		for len(s.apart) > 0 && s.apart[0].batch == g.batch && len(g.items) < s.group {
			it := s.apart[0]
			s.apart = s.apart[1:]
			if !g.batch.isTrial && s.topics.isPaused(it.event.PauseName()) {
				g.batch.answers.add(answer{item: it, result: publish.Result{Outcome: publish.NotSent, Err: errPaused}})
				continue
			}
			g.items = append(g.items, it)
		}
		s.write(g)
	}
	if len(s.apart) == 0 {
		s.group = 0
	}
}

// isIdle reports whether nothing waits for an answer, and the next event can be begun.
func (s *sender) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight == 0 && s.ctx.Err() == nil && (s.writer == nil || !s.writer.isLost)
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
	return len(s.apart) == 0 && (s.writer == nil || !s.writer.isLost && len(s.writer.queue) < maxQueue)
}

// answered gives an answer to the batch. What a lost publisher has not answered waits for
// findCause.
func (s *sender) answered(it *item, r publish.Result) {
	if r.Outcome == publish.NotSent && s.isLeft.Load() {
		r = notRead // its batch may wait for others
	}
	if s.note(it, r) {
		it.batch.answers.add(answer{item: it, result: r})
	}
}

func (s *sender) note(it *item, r publish.Result) (isKnown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = time.Now()
	if !it.inFlight {
		return true // the batch has given up
	}
	it.inFlight = false
	s.inFlight--
	isKnown = true
	switch {
	case r.Outcome == publish.Unknown && !errors.Is(r.Err, publish.ErrTimeout):
		s.lost, isKnown = append(s.lost, answer{item: it, result: r}), false
		s.lose()
	case r.Outcome == publish.NotSent && !errors.Is(r.Err, publish.ErrBusy) && !s.isOneByOne && s.ctx.Err() == nil:
		s.lose() // a session that answers one by one goes on with others
	case r.Outcome == publish.Confirmed, r.Outcome == publish.Returned, r.Outcome == publish.Refused:
		s.losses.remove(it.event.ID)
	}
	if s.inFlight == 0 {
		signal(s.changed)
	}
	return isKnown
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
	if it.inFlight {
		it.inFlight = false
		s.inFlight--
	}
	if s.inFlight == 0 {
		signal(s.changed)
	}
}

// tend closes a publisher that was lost, as soon as all that it had has an answer, and sends what
// goes apart. It reports whether it has closed one.
func (s *sender) tend(until context.Context) (wasLost bool) {
	s.mu.Lock()
	wasLost = s.writer != nil && s.writer.isLost && s.inFlight == 0
	s.mu.Unlock()
	if wasLost {
		s.close(until)
	}
	s.sendApart() //nolint:contextcheck // the sender has a context of its own
	return wasLost
}

// end begins nothing more, and answers what is not begun.
func (s *sender) end(isLeft bool) {
	s.isLeft.Store(isLeft)
	s.finish()
	s.mu.Lock()
	writer := s.writer
	s.mu.Unlock()
	if writer != nil {
		writer.refuse(notBegun)
	}
	for _, it := range s.apart {
		s.answered(it, notBegun)
	}
	s.apart = nil
}

// close ends the publisher, and waits for the answers to everything, but only until a context ends.
func (s *sender) close(until context.Context) {
	s.mu.Lock()
	writer := s.writer
	s.writer = nil
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
		s.findCause()
	case <-until.Done():
	}
}

// findCause looks for the event that made the publisher end.
func (s *sender) findCause() {
	s.mu.Lock()
	lost := s.lost
	s.lost = nil
	s.mu.Unlock()
	s.group = 0
	for _, a := range lost {
		if s.losses.add(a.item.event.ID, len(lost) == 1, errors.Is(a.result.Err, publish.ErrClosed), s.topics.lastTakenOfAll()) {
			a.result.Outcome = publish.Refused
		}
		a.item.batch.answers.add(a)
	}
}

// silentAt is when the destination will have answered nothing for SlowAfter, although it has got
// something.
func (s *sender) silentAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOneByOne || s.inFlight == 0 {
		return never
	}
	return s.quiet.Add(min(s.config.SlowAfter, s.config.ConfirmTimeout))
}

// isBlocked reports whether the destination asks to wait. Meanwhile it is not silent.
func (s *sender) isBlocked() bool {
	is := s.session.Blocked()
	if is {
		s.hear()
	}
	return is
}

// hear begins the time again in which the destination is silent.
func (s *sender) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = time.Now()
}

// isUnread reports whether this session was left, and is silent.
func (s *sender) isUnread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isLeft.Load() && time.Since(s.quiet) >= s.config.SlowAfter
}

// errPaused is the reason of an event that is not sent apart.
var errPaused = fmt.Errorf("%w: its topic has paused meanwhile", publish.ErrNotSent)

// notRead is the answer to an event that a session which was left has not begun, or that another one
// takes.
var notRead = publish.Result{Outcome: publish.Unknown, Err: errNotRead}

// notBegun is the answer to an event that is not begun, because the session or Run has ended.
var notBegun = publish.Result{Outcome: publish.NotSent, Err: fmt.Errorf("%w: %w", publish.ErrNotSent, context.Canceled)}
