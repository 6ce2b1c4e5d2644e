package feed

import (
	"context"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// Claim claims the oldest events of the feed. A batch has one event of each order: the next one may
// be published only after the first one.
//
// If the feed has less than a full batch, More is false. Then the relay pauses for 2 ms after the
// batch, so that the next batch is larger. The log arrives in small pieces, and without the pause
// most batches would be small.
func (f *Feed) Claim(ctx context.Context, worker string, limit int, lease time.Duration) (outbox.Claim, error) {
	events := f.pick(limit)
	if len(events) == 0 {
		return outbox.Claim{}, nil
	}
	claim, unseen, err := f.ClaimEvents(ctx, worker, events, lease)
	if err != nil {
		return outbox.Claim{}, err // they stay in the feed
	}
	ready := f.note(events, claim, unseen, limit)
	claim.More = ready >= limit || len(claim.Events) == 0 && ready > 0
	return claim, nil
}

// pick returns the next events to claim.
func (f *Feed) pick(limit int) (events []outbox.Claimed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		if e.state == claimed { // the relay has released it, because its only worker claims again
			e.state = waiting
		}
	}
	f.each(func(e *entry, bytes int) bool {
		if len(events) == limit || bytes > outbox.MaxClaimBytes {
			return false
		}
		events = append(events, e.event)
		return true
	})
	return events
}

// each calls use with the events that may be claimed now, and the bytes before each of them.
func (f *Feed) each(use func(e *entry, bytes int) bool) {
	now, orders, bytes := time.Now(), map[uuid.UUID]bool{}, 0
	for _, e := range f.entries {
		if e.state == done || orders[e.event.AggregateID] {
			continue
		}
		orders[e.event.AggregateID] = true
		if e.state == claimed || now.Before(e.next) {
			continue
		}
		if !use(e, bytes) {
			return
		}
		bytes += len(e.event.Payload)
	}
}

// note records the answer of ClaimEvents. It returns how many events could be claimed now, at most
// limit.
func (f *Feed) note(asked []outbox.Claimed, claim outbox.Claim, unseen []uuid.UUID, limit int) (ready int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, event := range asked {
		f.setState(event.ID, done)
	}
	for _, event := range claim.Events {
		f.setState(event.ID, claimed)
	}
	for _, id := range unseen {
		f.noteUnseen(f.byID[id])
	}
	f.count(asked, claim)
	f.trim()
	f.each(func(*entry, int) bool { ready++; return ready < limit })
	return ready
}

func (f *Feed) setState(id uuid.UUID, s state) {
	if e := f.byID[id]; e != nil {
		e.state = s
	}
}

func (f *Feed) count(asked []outbox.Claimed, claim outbox.Claim) {
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
// feed leaves the event to the ordinary relay.
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
