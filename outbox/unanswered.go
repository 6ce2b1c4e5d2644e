package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// unanswered is what a destination that answers one by one has not answered: it may be silent, or a
// function may never return. For any other one, the topics pause ("no answer for 1s").
type unanswered struct {
	mu      sync.Mutex
	waiting int       // messages
	since   time.Time // when the last answer came, or the first of these messages was sent
	overdue map[string]overdue
	bytes   int64 // of what is overdue
	named   bool  // in the log
}

// overdue is a message of which the outbox says that it has had no answer, although it is still being
// sent.
type overdue struct {
	topic string
	since time.Time // when it was sent
	bytes int64
}

const (
	// silentAfter is when a destination that has answered nothing is silent, unless SlowAfter is longer.
	silentAfter = 5 * time.Second
	// maxOverdue bounds how much is overdue. Then nothing is claimed.
	maxOverdue = 1000
)

func (u *unanswered) sent(messages int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting == 0 {
		u.since = time.Now()
	}
	u.waiting += messages
}

// answered notes the answer to a message that was sent at a time.
func (u *unanswered) answered(m publish.Message, r publish.Result, sent time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch r.Outcome {
	case publish.Confirmed, publish.Returned, publish.Refused:
		u.since = time.Now()
	default: // the destination has said nothing
	}
	if o, ok := u.overdue[m.ID]; ok {
		u.bytes -= o.bytes
		delete(u.overdue, m.ID)
		return
	}
	u.waiting--
	if errors.Is(r.Err, publish.ErrOverdue) {
		o := overdue{m.Topic, sent, int64(len(m.Body))}
		u.overdue[m.ID] = o
		u.bytes += o.bytes
	}
}

// has reports whether the message is still being sent.
func (u *unanswered) has(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.overdue[id]
	return ok
}

// isTooMuch reports whether nothing may be claimed, because of what is overdue and of payloads in
// flight.
func (u *unanswered) isTooMuch(inFlight int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.overdue) >= maxOverdue || inFlight+u.bytes > maxBytes/2
}

// silence is since when there has been no answer, and what to say about it.
type silence struct {
	seconds          float64 // 0: there are answers
	waiting, overdue int
	id, topic        string // of the oldest one that is overdue
}

func (r *Relay) silence() (s silence) {
	u := &r.unanswered
	u.mu.Lock()
	defer u.mu.Unlock()
	oldest := never
	for id, o := range u.overdue {
		if o.since.Before(oldest) {
			oldest, s.id, s.topic = o.since, id, o.topic
		}
	}
	if u.waiting > 0 && time.Since(u.since) >= max(silentAfter, r.config.SlowAfter) {
		oldest = earlier(oldest, u.since)
	}
	if s.waiting, s.overdue = u.waiting, len(u.overdue); oldest != never {
		s.seconds = time.Since(oldest).Seconds()
	}
	return s
}

func (s silence) err(destination string) error {
	if s.overdue > 0 {
		return fmt.Errorf("no answer from %s for %.0f s: %d calls have not returned, such as that for message %s of topic %s",
			destination, s.seconds, s.overdue, s.id, s.topic)
	}
	return fmt.Errorf("no answer from %s for %.0f s, and %d messages wait for one", destination, s.seconds, s.waiting)
}

// nameSilence logs a silence when it begins.
func (w *worker) nameSilence(ctx context.Context) {
	s := w.silence()
	w.unanswered.mu.Lock()
	begins := s.seconds > 0 && !w.unanswered.named
	w.unanswered.named = s.seconds > 0
	w.unanswered.mu.Unlock()
	if begins {
		w.log.ErrorContext(ctx, "no answer", "destination", w.destination, "seconds", s.seconds,
			"waiting", s.waiting, "overdue", s.overdue, "message_id", s.id, "topic", s.topic)
	}
}
