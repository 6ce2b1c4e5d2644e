package outbox

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// unanswered is what a destination that answers one by one has not answered: it may be silent, or a
// function may never return. For any other one, the topics pause ("no answer for 1s").
type unanswered struct {
	mu      sync.Mutex
	waiting int       // messages
	since   time.Time // when the last answer came, or the first of these messages was sent
	overdue map[*sending]bool
	bytes   int64         // of what is overdue
	late    []store.Event // confirmed after they were overdue
}

// sending is an event that the publisher has. When it is overdue, its worker and its claim are over.
type sending struct {
	event store.Event // without the payload
	bytes int64       // of the payload, which the publisher still has
	since time.Time
}

const (
	// silentAfter is when a destination that has answered nothing is silent, unless it says that it needs
	// longer.
	silentAfter = 5 * time.Second
	// maxOverdue bounds how many are overdue. Then nothing is claimed.
	maxOverdue = 1000
)

// sent notes what is given to a publisher, which calls what sent returns with its answers. The first
// answer to each event goes to its worker. What is kept until the second one is small.
func (u *unanswered) sent(items []*item, to *answers) func(i int, r publish.Result) {
	waiting, all := slices.Clone(items), make([]*sending, len(items))
	for i, it := range items {
		all[i] = &sending{it.event, int64(len(it.event.Payload)), time.Now()}
		all[i].event.Payload = nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting == 0 {
		u.since = time.Now()
	}
	u.waiting += len(items)
	return func(i int, r publish.Result) {
		it, s := waiting[i], all[i]
		if waiting[i] = nil; !errors.Is(r.Err, publish.ErrOverdue) {
			all[i] = nil
		}
		if u.answered(s, r, it != nil); it != nil {
			to.add(answer{item: it, result: r})
			return
		}
		signal(to.some)
	}
}

func (u *unanswered) answered(s *sending, r publish.Result, isFirst bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.Outcome != publish.NotSent && r.Outcome != publish.Unknown { // otherwise the destination has said nothing
		u.since = time.Now()
	}
	switch {
	case !isFirst:
		u.bytes -= s.bytes
		delete(u.overdue, s)
		if r.Outcome == publish.Confirmed {
			u.late = append(u.late, s.event)
		}
	case errors.Is(r.Err, publish.ErrOverdue):
		u.bytes += s.bytes
		u.overdue[s] = true
		fallthrough
	default:
		u.waiting--
	}
}

// takeLate returns what was confirmed after it was overdue. Any worker may record it.
func (u *unanswered) takeLate() (late []store.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	late, u.late = u.late, nil
	return late
}

// has reports whether the event is still being sent.
func (u *unanswered) has(id uuid.UUID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s := range u.overdue {
		if s.event.ID == id {
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
	for s := range u.overdue {
		if s.since.Before(since) {
			since = s.since
			calls = fmt.Sprintf(", calls that have not returned: %d, such as that for message %s of topic %s", len(u.overdue), s.event.ID, s.event.Topic)
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
