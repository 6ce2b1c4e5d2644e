package model

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Settle is store.Store.Settle.
func (o *Outbox) Settle(s store.Settlement) (done store.Settled) {
	o.markPublished(s.Published)
	done.Failed = o.putOff(s, &done.Held)
	done.Held += o.overtake(s.Token, s.Overtaken)
	if s.End {
		o.claims = slices.DeleteFunc(o.claims, func(c *Claim) bool { return c.Token == s.Token })
	}
	o.promote(slices.Concat(s.Published, s.Overtaken))
	for topic, reason := range s.Paused {
		o.pause(topic, reason, s)
	}
	for _, topic := range s.Resumed {
		o.resume(topic)
	}
	o.retry(func(topic string) bool { return s.RetryAll || slices.Contains(s.Resumed, topic) })
	return done
}

// Renew is store.Store.Renew.
func (o *Outbox) Renew(tokens []uuid.UUID, lease time.Duration) {
	for _, c := range o.claims {
		if slices.Contains(tokens, c.Token) {
			c.Until = o.now.Add(lease)
		}
	}
}

// markPublished needs no claim: a confirm is a fact.
func (o *Outbox) markPublished(ids []uuid.UUID) {
	for _, id := range ids {
		_, logged := o.events[id]
		if (logged || o.queue[id] != nil) && !slices.Contains(o.published, id) {
			o.published = append(o.published, id)
		}
		delete(o.queue, id)
	}
}

// putOff reschedules, halts or fails events. It returns those that have failed, and when.
func (o *Outbox) putOff(s store.Settlement, held *int) map[uuid.UUID]time.Time {
	failed := map[uuid.UUID]time.Time{}
	for _, f := range s.Failures {
		q := o.fence(s.Token, f.ID)
		if q == nil {
			continue
		}
		*held++
		tooLong := !q.RefusedSince.IsZero() && !q.RefusedSince.After(o.now.Add(-s.GiveUp))
		fails := f.Final || f.Counts && q.Attempts+1 >= store.LeastRefusals && tooLong
		if f.Counts {
			q.Attempts++
		}
		if f.Counts && q.RefusedSince.IsZero() {
			q.RefusedSince = o.now
		}
		q.Code, q.Due = f.Code, o.now.Add(f.Delay)
		q.Failed, q.Halted, q.Parked = fails, f.Halt && !fails, false
		if fails {
			failed[f.ID] = o.now
		}
	}
	return failed
}

// overtake settles events that a newer one supersedes.
func (o *Outbox) overtake(token uuid.UUID, ids []uuid.UUID) (held int) {
	for _, id := range ids {
		if q := o.queue[id]; q == nil || !o.isOvertaken(q) || o.fence(token, id) == nil {
			continue
		}
		held++
		delete(o.queue, id)
		o.overtaken = append(o.overtaken, id)
	}
	return held
}

// fence takes an event out of a claim, and returns it. A relay whose lease has ended, and whose
// events another relay has claimed, gets none.
func (o *Outbox) fence(token, id uuid.UUID) *Queued {
	i := slices.IndexFunc(o.claims, func(c *Claim) bool { return c.Token == token && slices.Contains(c.Events, id) })
	if i < 0 {
		return nil
	}
	c := o.claims[i]
	c.Events = slices.DeleteFunc(c.Events, func(held uuid.UUID) bool { return held == id })
	return o.queue[id]
}

// promote makes the next parked event of the order of each event due, unless the event is still in
// the queue. Without the row of the log it does not know the order.
func (o *Outbox) promote(ids []uuid.UUID) {
	next := map[uuid.UUID]*Queued{} // by order
	for _, id := range ids {
		e, exists := o.events[id]
		if !exists || o.queue[id] != nil {
			continue
		}
		for _, q := range o.queue {
			if q.Order == e.Order && q.Parked && (next[e.Order] == nil || q.Version < next[e.Order].Version) {
				next[e.Order] = q
			}
		}
	}
	for _, q := range next {
		o.makeDue(q)
	}
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
