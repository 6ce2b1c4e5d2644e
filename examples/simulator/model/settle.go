package model

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// MarkPublished is store.Store.MarkPublished.
func (o *Outbox) MarkPublished(token uuid.UUID, ids []uuid.UUID) {
	for _, id := range ids {
		_, logged := o.events[id]
		if (logged || o.queue[id] != nil) && !slices.Contains(o.published, id) {
			o.published = append(o.published, id)
		}
		delete(o.queue, id)
	}
	o.Release(token)
	o.promote(ids)
}

// Overtake is store.Store.Overtake.
func (o *Outbox) Overtake(token uuid.UUID, ids []uuid.UUID) {
	var overtaken []store.Failure
	for _, id := range ids {
		if q := o.queue[id]; q != nil && o.isOvertaken(q) {
			overtaken = append(overtaken, store.Failure{ID: id})
		}
	}
	for _, held := range o.fence(token, overtaken) {
		delete(o.queue, held.ID)
		o.overtaken = append(o.overtaken, held.ID)
	}
	o.promote(ids)
}

// promote makes the next parked event of the order of each event due. Without the row of the log it
// does not know the order.
func (o *Outbox) promote(ids []uuid.UUID) {
	orders := map[uuid.UUID]bool{}
	for _, id := range ids {
		if e, exists := o.events[id]; exists {
			orders[e.Order] = true
		}
	}
	for order := range orders {
		var next *Queued
		for _, q := range o.queue {
			waitsForOlder := q.Parked && !q.Failed && q.Code != "unroutable"
			if q.Order == order && waitsForOlder && (next == nil || q.Version < next.Version) {
				next = q
			}
		}
		if next != nil {
			next.Parked, next.Due = false, o.now
		}
	}
}

// Release is store.Store.Release.
func (o *Outbox) Release(token uuid.UUID) (held bool) {
	before := len(o.claims)
	o.claims = slices.DeleteFunc(o.claims, func(c *Claim) bool { return c.Token == token })
	return len(o.claims) < before
}

// Reschedule is store.Store.Reschedule.
func (o *Outbox) Reschedule(token uuid.UUID, failures []store.Failure) (changed int) {
	held := o.fence(token, failures)
	probes := o.chooseProbes(held)
	for _, f := range held {
		q := o.queue[f.ID]
		if f.Counts {
			q.Attempts++
		}
		q.Code = f.Code
		q.Parked = f.Code == "unroutable" && !probes[f.ID]
		q.Due = o.now.Add(f.Delay)
	}
	return len(held)
}

// fence returns the failures of the events that the claim still holds, and takes these events out
// of the claim. A relay whose lease has ended, and whose events another relay has claimed, holds
// none.
func (o *Outbox) fence(token uuid.UUID, failures []store.Failure) (held []store.Failure) {
	claim := o.claimOf(token)
	if claim == nil {
		return nil
	}
	for _, f := range failures {
		if !slices.Contains(claim.Events, f.ID) {
			continue
		}
		claim.Events = slices.DeleteFunc(claim.Events, func(id uuid.UUID) bool { return id == f.ID })
		if o.queue[f.ID] != nil {
			held = append(held, f)
		}
	}
	return held
}

// chooseProbes chooses one unroutable event of each topic that has no probe yet.
func (o *Outbox) chooseProbes(held []store.Failure) map[uuid.UUID]bool {
	first := map[string]*Queued{}
	for _, f := range held {
		if q := o.queue[f.ID]; f.Code == "unroutable" && (first[q.Topic] == nil || q.Seq < first[q.Topic].Seq) {
			first[q.Topic] = q
		}
	}
	probes := map[uuid.UUID]bool{}
	for topic, q := range first {
		probes[q.ID] = !o.hasProbe(topic, held)
	}
	return probes
}

// hasProbe reports whether an unroutable event of the topic is going to be tried again. The events
// that are being rescheduled do not count, because a claim holds them until then.
func (o *Outbox) hasProbe(topic string, held []store.Failure) bool {
	for _, q := range o.queue {
		isHeld := slices.ContainsFunc(held, func(f store.Failure) bool { return f.ID == q.ID })
		if !isHeld && o.unroutable(q, topic) && !q.Parked {
			return true
		}
	}
	return false
}

func (o *Outbox) unroutable(q *Queued, topic string) bool {
	return q.Topic == topic && q.Code == "unroutable" && !q.Failed && !o.claimed(q.ID)
}

// RetryUnroutable is store.Store.RetryUnroutable.
func (o *Outbox) RetryUnroutable(topic string, limit int) (n int) {
	var waiting []*Queued
	for _, q := range o.queue {
		if o.unroutable(q, topic) {
			waiting = append(waiting, q)
		}
	}
	slices.SortFunc(waiting, byDue)
	for _, q := range waiting[:min(limit, len(waiting))] {
		if !o.isDue(q) {
			q.Parked, q.Due = false, o.now
			n++
		}
	}
	return n
}

// ProbeRoutes is store.Store.ProbeRoutes, which the janitor calls: it makes one event due for each
// topic whose events all wait for a probe that does not exist. A relay has died before it made them
// due.
func (o *Outbox) ProbeRoutes() (probes int) {
	parked, probed := map[string]bool{}, map[string]bool{}
	for _, q := range o.queue {
		if q.Code == "unroutable" && !q.Failed {
			parked[q.Topic] = true
			probed[q.Topic] = probed[q.Topic] || !q.Parked
		}
	}
	for topic := range parked {
		if !probed[topic] {
			probes += o.RetryUnroutable(topic, 1)
		}
	}
	return probes
}

// Fail is store.Store.Fail.
func (o *Outbox) Fail(token uuid.UUID, failure store.Failure) (at time.Time, held int) {
	if len(o.fence(token, []store.Failure{failure})) == 0 {
		return time.Time{}, 0
	}
	q := o.queue[failure.ID]
	if failure.Counts {
		q.Attempts++
	}
	q.Failed, q.Parked, q.Code = true, true, failure.Code
	return o.now, 1
}

// Replay is what package operate does to replay one failed event.
func (o *Outbox) Replay(id uuid.UUID) (replayed bool) {
	q := o.queue[id]
	if _, exists := o.events[id]; q == nil || !q.Failed || !exists || o.isOvertaken(q) {
		return false
	}
	o.queue[id] = &Queued{Event: q.Event, Due: o.now, Supersedes: q.Supersedes}
	return true
}
