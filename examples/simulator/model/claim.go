package model

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Claim is store.Store.Claim. It has no limit of rows: a simulation has few events.
func (o *Outbox) Claim(token uuid.UUID, worker string, limit int, lease time.Duration) store.Claim {
	o.expire()
	claim := &Claim{Token: token, Worker: worker, Until: o.now.Add(lease)}
	for _, q := range o.dueInOrder() {
		oldest := o.oldest(q)
		switch {
		case oldest.ID != q.ID && !o.isDue(oldest):
			q.Parked = true // until the oldest one is finished
		case oldest.ID == q.ID && len(claim.Events) < limit:
			claim.Events = append(claim.Events, q.ID)
		}
	}
	if len(claim.Events) == 0 {
		return store.Claim{Token: token}
	}
	o.claims = append(o.claims, claim)
	return o.read(claim)
}

// expire deletes the claims whose lease has ended.
func (o *Outbox) expire() {
	o.claims = slices.DeleteFunc(o.claims, func(c *Claim) bool { return !c.Until.After(o.now) })
}

// dueInOrder returns what a claim looks at: the events that are due and that nobody has claimed.
func (o *Outbox) dueInOrder() (due []*Queued) {
	for _, q := range o.queue {
		if o.isDue(q) && !o.claimed(q.ID) {
			due = append(due, q)
		}
	}
	slices.SortFunc(due, byDue)
	return due
}

// byDue compares by available_at, seq. A parked event comes last: its available_at is infinity.
func byDue(a, b *Queued) int {
	switch {
	case a.Parked != b.Parked && a.Parked:
		return 1
	case a.Parked != b.Parked:
		return -1
	case a.Parked || a.Due.Equal(b.Due):
		return a.Seq - b.Seq
	default:
		return a.Due.Compare(b.Due)
	}
}

// read returns the events of a claim, in the order of the inserts.
func (o *Outbox) read(c *Claim) store.Claim {
	claim := store.Claim{Token: c.Token}
	ids := slices.Clone(c.Events)
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return o.queue[a].Seq - o.queue[b].Seq })
	for _, id := range ids {
		if _, exists := o.events[id]; exists {
			claim.Events = append(claim.Events, o.asClaimed(o.queue[id]))
		} else {
			claim.Lost = append(claim.Lost, id)
		}
	}
	return claim
}
