package model

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// MarkPublished is outbox.Store.MarkPublished.
func (o *Outbox) MarkPublished(token uuid.UUID, ids []uuid.UUID) {
	var orders []uuid.UUID
	for _, id := range ids {
		delete(o.queue, id)
		if e, exists := o.events[id]; exists && !slices.Contains(orders, e.Order) {
			orders = append(orders, e.Order)
		}
		if !slices.Contains(o.published, id) {
			o.published = append(o.published, id)
		}
	}
	if token != uuid.Nil {
		o.Release(token)
	}
	o.promote(orders)
}

// promote makes the next parked event of each order due.
func (o *Outbox) promote(orders []uuid.UUID) {
	for _, order := range orders {
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

// Release is outbox.Store.Release.
func (o *Outbox) Release(token uuid.UUID) (held bool) {
	before := len(o.claims)
	o.claims = slices.DeleteFunc(o.claims, func(c *Claim) bool { return c.Token == token })
	return len(o.claims) < before
}

// Reschedule is outbox.Store.Reschedule.
func (o *Outbox) Reschedule(token uuid.UUID, failures []outbox.Failure) (changed int) {
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
func (o *Outbox) fence(token uuid.UUID, failures []outbox.Failure) (held []outbox.Failure) {
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

// chooseProbes chooses one unroutable event of each key that has no probe yet.
func (o *Outbox) chooseProbes(held []outbox.Failure) map[uuid.UUID]bool {
	first := map[string]*Queued{}
	for _, f := range held {
		if q := o.queue[f.ID]; f.Code == "unroutable" && (first[q.Key] == nil || q.Seq < first[q.Key].Seq) {
			first[q.Key] = q
		}
	}
	probes := map[uuid.UUID]bool{}
	for key, q := range first {
		probes[q.ID] = !o.hasProbe(key, held)
	}
	return probes
}

// hasProbe reports whether an unroutable event of the key is going to be tried again. The events
// that are being rescheduled do not count, because a claim holds them until then.
func (o *Outbox) hasProbe(key string, held []outbox.Failure) bool {
	for _, q := range o.queue {
		isHeld := slices.ContainsFunc(held, func(f outbox.Failure) bool { return f.ID == q.ID })
		if !isHeld && o.unroutable(q, key) && !q.Parked {
			return true
		}
	}
	return false
}

func (o *Outbox) unroutable(q *Queued, key string) bool {
	return q.Key == key && q.Code == "unroutable" && !q.Failed && !o.claimed(q.ID)
}

// RetryUnroutable is outbox.Store.RetryUnroutable.
func (o *Outbox) RetryUnroutable(key string, limit int) (n int) {
	var waiting []*Queued
	for _, q := range o.queue {
		if o.unroutable(q, key) {
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

// ProbeRoutes is outbox.Store.ProbeRoutes, which the janitor calls: it makes one event due for each
// key whose events all wait for a probe that does not exist. A relay has died before it made them
// due.
func (o *Outbox) ProbeRoutes() (probes int) {
	parked, probed := map[string]bool{}, map[string]bool{}
	for _, q := range o.queue {
		if q.Code == "unroutable" && !q.Failed {
			parked[q.Key] = true
			probed[q.Key] = probed[q.Key] || !q.Parked
		}
	}
	for key := range parked {
		if !probed[key] {
			probes += o.RetryUnroutable(key, 1)
		}
	}
	return probes
}

// Fail is outbox.Store.Fail.
func (o *Outbox) Fail(token uuid.UUID, failure outbox.Failure) (at time.Time, held int) {
	if len(o.fence(token, []outbox.Failure{failure})) == 0 {
		return time.Time{}, 0
	}
	q := o.queue[failure.ID]
	if failure.Counts {
		q.Attempts++
	}
	q.Failed, q.Parked, q.Code = true, true, failure.Code
	return o.now, 1
}

// Replay is outbox.Operator.Replay of one failed event.
func (o *Outbox) Replay(id uuid.UUID) (replayed bool) {
	q := o.queue[id]
	if q == nil || !q.Failed {
		return false
	}
	o.queue[id] = &Queued{Event: q.Event, Due: o.now}
	o.promote([]uuid.UUID{q.Order})
	return true
}
