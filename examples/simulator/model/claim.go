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
	o.forgetTopics()
	next := o.nextProbe()
	going, stopped := o.due()
	back := o.toBringBack(limit, len(going))
	claim := &Claim{Token: token, Worker: worker, Until: o.now.Add(lease)}
	for _, q := range going {
		oldest := o.oldest(q)
		switch {
		case oldest.ID != q.ID && !o.isDue(oldest):
			q.Parked = true // until the oldest one is finished
		case oldest.ID == q.ID && len(claim.Events) < limit:
			claim.Events = append(claim.Events, q.ID)
		}
	}
	for _, q := range stopped {
		q.Halted = o.oldest(q).ID == q.ID
		q.Parked = !q.Halted
	}
	for _, q := range back {
		o.makeDue(q)
	}
	halts := slices.ContainsFunc(stopped, func(q *Queued) bool { return q.Halted })
	return o.grant(claim, store.Claim{More: halts || len(back) > 0, NextProbe: next})
}

// grant stores a claim if it has events, and reads these.
func (o *Outbox) grant(c *Claim, answer store.Claim) store.Claim {
	if answer.Token = c.Token; len(c.Events) == 0 {
		return answer
	}
	o.claims = append(o.claims, c)
	ids := slices.Clone(c.Events)
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return o.queue[a].Seq - o.queue[b].Seq })
	for _, id := range ids {
		if _, exists := o.events[id]; exists {
			answer.Events = append(answer.Events, o.asClaimed(o.queue[id]))
		} else {
			answer.NoPayload = append(answer.NoPayload, id)
		}
	}
	return answer
}

// expire deletes the claims whose lease has ended.
func (o *Outbox) expire() {
	o.claims = slices.DeleteFunc(o.claims, func(c *Claim) bool { return !c.Until.After(o.now) })
}

// due returns the events that are due and that nobody has claimed: those that may go, and those
// whose topic is paused.
func (o *Outbox) due() (going, stopped []*Queued) {
	for _, q := range o.queue {
		switch {
		case !o.isDue(q) || o.claimed(q.ID):
		case o.isPaused(q.Topic):
			stopped = append(stopped, q)
		case !o.isPaused(store.AllTopics):
			going = append(going, q)
		}
	}
	slices.SortFunc(going, func(a, b *Queued) int {
		if a.Due.Equal(b.Due) {
			return a.Seq - b.Seq
		}
		return a.Due.Compare(b.Due)
	})
	return going, stopped
}
