package feed

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Claim claims events of the log, or those that were left to the poll. The two take turns, so that
// neither waits for the other.
func (f *Feed) Claim(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error) {
	claims := []claim{f.claimLogged, f.claimLeft}
	if f.poll.first = !f.poll.first; f.poll.first {
		slices.Reverse(claims)
	}
	var nextProbe *float64
	for _, claim := range claims {
		c, err := claim(ctx, worker, limit, lease)
		nextProbe = cmp.Or(c.NextProbe, nextProbe)
		if c.NextProbe = nextProbe; err != nil || c.More || len(c.Events)+len(c.NoPayload) > 0 {
			return c, err
		}
	}
	return store.Claim{NextProbe: nextProbe}, nil
}

type claim func(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error)

// claimLogged claims the oldest events of the feed. A batch has one event of each order: the next one
// may be published only after the first one.
//
// If the feed has less than a full batch, More is false. Then the relay pauses for 2 ms after the
// batch, so that the next batch is larger. The log arrives in small pieces, and without the pause
// most batches would be small.
func (f *Feed) claimLogged(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error) {
	events := f.pick(limit)
	if len(events) == 0 {
		return store.Claim{}, nil
	}
	claim, unseen, err := f.claimEvents(ctx, worker, events, lease)
	if err != nil {
		return store.Claim{}, err // they stay in the feed
	}
	ready := f.note(events, claim, unseen, limit)
	claim.More = ready >= limit || len(claim.Events) == 0 && ready > 0
	return claim, nil
}

// pick returns the next events to claim.
func (f *Feed) pick(limit int) (events []store.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.each(func(e *entry, bytes int) bool {
		if len(events) == limit || bytes > store.MaxClaimBytes {
			return false
		}
		events = append(events, e.event)
		return true
	})
	return events
}

// order is the aggregate of events that have an order.
type order struct{ aggregate, id string }

// each calls use with the events that may be claimed now, and the bytes before each of them.
func (f *Feed) each(use func(e *entry, bytes int) bool) {
	now, orders, bytes := time.Now(), map[order]bool{}, 0
	for _, e := range f.entries {
		of := order{e.event.Aggregate, e.event.AggregateID}
		if e.state == done || orders[of] {
			continue
		}
		orders[of] = of != order{} // an event without an aggregate waits for no other one
		if e.state == claimed || now.Before(e.next) {
			continue
		}
		if !use(e, bytes) {
			return
		}
		bytes += len(e.event.Payload)
	}
}

// note records the answer of claimEvents. It returns how many events could be claimed now, at most
// limit.
func (f *Feed) note(asked []store.Event, claim store.Claim, unseen []uuid.UUID, limit int) (ready int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, event := range asked {
		f.setDone(event.ID)
	}
	for _, event := range claim.Events {
		if e := f.byID[event.ID]; e != nil {
			e.state, e.claim = claimed, claim.Token
		}
	}
	for _, id := range unseen {
		f.noteUnseen(f.byID[id])
	}
	f.count(asked, claim)
	f.trim()
	f.each(func(*entry, int) bool { ready++; return ready < limit })
	return ready
}

func (f *Feed) setDone(id uuid.UUID) {
	if e := f.byID[id]; e != nil {
		e.state = done
	}
}

func (f *Feed) count(asked []store.Event, claim store.Claim) {
	for _, event := range asked {
		if e := f.byID[event.ID]; e != nil && e.state == done {
			f.counts.Left++
		}
	}
	if f.counts.Claimed += len(claim.Events); len(claim.Events) > 0 {
		f.counts.Batches++
	}
}

// A commit becomes visible within microseconds after it is in the log. With synchronous
// replication, it becomes visible when the standby has it. After maxUnseen claims, about 20 s, the
// feed leaves the event to the poll.
const (
	firstUnseen = time.Millisecond
	lastUnseen  = time.Second
	maxUnseen   = 30
)

func (f *Feed) noteUnseen(e *entry) {
	if e == nil || e.unseen == maxUnseen {
		return
	}
	f.counts.Unseen++
	pause := min(firstUnseen<<min(e.unseen, 10), lastUnseen)
	e.unseen++
	e.state = waiting
	e.next = time.Now().Add(pause)
	time.AfterFunc(pause, f.wake)
}
