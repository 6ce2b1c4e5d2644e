package outbox

import (
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
	overdue map[*item]overdue
	bytes   int64 // of what is overdue
}

// overdue is a message that the outbox calls unanswered, although it is still being sent.
type overdue struct {
	publish.Message
	sent time.Time
}

const (
	// silentAfter is when a destination that has answered nothing is silent, unless it says that it needs
	// longer.
	silentAfter = 5 * time.Second
	// maxOverdue bounds how many are overdue. Then nothing is claimed.
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

// answered notes an answer to a message. sent is when the publisher got it.
func (u *unanswered) answered(it *item, m publish.Message, r publish.Result, sent time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.Outcome != publish.NotSent && r.Outcome != publish.Unknown { // otherwise the destination has said nothing
		u.since = time.Now()
	}
	if _, ok := u.overdue[it]; ok {
		u.bytes -= int64(len(m.Body))
		delete(u.overdue, it)
		return
	}
	u.waiting--
	if errors.Is(r.Err, publish.ErrOverdue) {
		u.bytes += int64(len(m.Body))
		u.overdue[it] = overdue{m, sent}
	}
}

// has reports whether the message is still being sent.
func (u *unanswered) has(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, o := range u.overdue {
		if o.ID == id {
			return true
		}
	}
	return false
}

// isTooMuch reports whether nothing may be claimed beside what is overdue and the payloads in flight.
func (u *unanswered) isTooMuch(inFlight int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.overdue) >= maxOverdue || inFlight+u.bytes > maxBytes/2
}

// noAnswer returns nil if there are answers. Otherwise it says for how long there have been none.
func (r *Relay) noAnswer() (d time.Duration, err error) {
	u, limit := &r.unanswered, silentAfter
	if to, ok := r.to.(interface{ AnswersWithin() time.Duration }); ok {
		limit = to.AnswersWithin()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	since, calls := never, ""
	for _, o := range u.overdue {
		if o.sent.Before(since) {
			since = o.sent
			calls = fmt.Sprintf(", calls that have not returned: %d, such as that for message %s of topic %s", len(u.overdue), o.ID, o.Topic)
		}
	}
	if u.waiting > 0 && time.Since(u.since) >= limit {
		since = earlier(since, u.since)
	}
	if since.Equal(never) {
		return 0, nil
	}
	d = time.Since(since)
	return d, fmt.Errorf("no answer from %s for %.0f s; messages that wait: %d%s", r.destination, d.Seconds(), u.waiting, calls)
}
