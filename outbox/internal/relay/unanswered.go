package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/quietlog"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// unanswered is what a destination that answers one by one has not answered: it may be silent, or a
// function may never return. If a destination does not answer one by one, the topics pause instead
// ("no answer for 1s").
type unanswered struct {
	destination string
	limit       time.Duration // for silence
	late        *late

	mu      sync.Mutex
	waiting int                // messages
	since   time.Time          // when the destination has last said something, or got the first of these messages
	events  map[uuid.UUID]bool // that are still being sent, or are late
	overdue map[*sending]bool
	bytes   int64 // of what is overdue

	isSilent atomic.Bool // as the log says
}

// sending is an event that the publisher has. It may outlive its worker and its claim.
type sending struct {
	item  *item       // nil after the first answer
	event store.Event // without the payload
	bytes int64       // of the payload, which the publisher still has
	since time.Time
}

const (
	// silentAfter is when a destination that has answered nothing is silent, unless it has a time of
	// its own.
	silentAfter = 5 * time.Second
	// maxOverdue is how many may be overdue. From then on nothing is claimed.
	maxOverdue = 1000
)

func newUnanswered(to publish.Destination, l *late) *unanswered {
	u := &unanswered{
		destination: to.Name(), limit: silentAfter, late: l,
		events: map[uuid.UUID]bool{}, overdue: map[*sending]bool{},
	}
	if to, ok := to.(interface{ AnswersWithin() time.Duration }); ok {
		u.limit = to.AnswersWithin()
	}
	return u
}

// sent notes events that go to a publisher. It returns the function that the publisher calls with
// each answer. The first answer to an event is given on. Until the second one, no payload is kept
// here.
func (u *unanswered) sent(items []*item, first func(it *item, r publish.Result)) func(i int, r publish.Result) {
	all := make([]*sending, len(items))
	for i, it := range items {
		all[i] = &sending{it, it.event, int64(len(it.event.Payload)), time.Now()}
		all[i].event.Payload = nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, it := range items {
		u.events[it.event.ID] = true
	}
	if u.waiting == 0 {
		u.since = time.Now()
	}
	u.waiting += len(items)
	return func(i int, r publish.Result) {
		s := all[i]
		if s == nil {
			return // the publisher answers more often than it should
		}
		it := s.item
		s.item = nil
		if it == nil || !errors.Is(r.Err, publish.ErrOverdue) {
			all[i] = nil // others of the same Publish may be overdue for ever
		}
		u.answered(s, r, it != nil)
		if it != nil {
			first(it, r)
		}
	}
}

func (u *unanswered) answered(s *sending, r publish.Result, isFirst bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.Outcome != publish.NotSent && r.Outcome != publish.Unknown { // otherwise the destination has said nothing
		u.since = time.Now()
	}
	if isFirst {
		u.waiting--
	} else {
		u.bytes -= s.bytes
		delete(u.overdue, s)
	}
	switch {
	case isFirst && errors.Is(r.Err, publish.ErrOverdue):
		u.bytes += s.bytes
		u.overdue[s] = true
	case !isFirst && r.Outcome == publish.Confirmed:
		u.late.add(s.event)
		delete(u.events, s.event.ID)
	default:
		delete(u.events, s.event.ID)
	}
}

// has reports whether the event must not be sent: it is being sent, or its late confirm is not
// recorded.
func (u *unanswered) has(id uuid.UUID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.events[id] || u.late.has(id)
}

// isTooMuch reports whether too much is overdue, or in memory with the payloads in flight, to claim
// more.
func (u *unanswered) isTooMuch(inFlight int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.overdue) >= maxOverdue || inFlight+u.bytes > maxBytes/2
}

// logSilence logs once when the destination becomes silent.
func (u *unanswered) logSilence(ctx context.Context, log *quietlog.Log) {
	if _, err := u.silence(); !u.isSilent.Swap(err != nil) && err != nil {
		log.ErrorContext(ctx, "the destination does not answer", "error", err)
	}
}

// NoAnswer is for how long the destination has been silent, or a call overdue; 0 if it answers.
func (r *Relay) NoAnswer() time.Duration {
	d, _ := r.unanswered.silence()
	return d
}

// silence returns an error if the destination is silent or a call is overdue, and for how long.
func (u *unanswered) silence() (d time.Duration, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	oldest, calls := &sending{since: never}, ""
	for s := range u.overdue {
		if s.since.Before(oldest.since) {
			oldest = s
		}
	}
	since := oldest.since
	if len(u.overdue) > 0 {
		calls = fmt.Sprintf(", calls that have not returned: %d, such as that for message %s of topic %s", len(u.overdue), oldest.event.ID, oldest.event.Topic)
	}
	if u.waiting > 0 && time.Since(u.since) >= u.limit {
		since = earlier(since, u.since)
	}
	if since.Equal(never) {
		return 0, nil
	}
	d = time.Since(since)
	return d, fmt.Errorf("no answer from %s for %.0f s; messages that wait: %d%s", u.destination, d.Seconds(), u.waiting, calls)
}
