// Package model has the outbox's tables in memory, for a page in a browser, where there is no
// PostgreSQL. Each method does what the SQL statement of the same name in package store does. A
// test compares both after each of many random steps.
//
// It has no transactions and no locks between them: each call is one step, and nothing happens at
// the same time. What PostgreSQL does when statements do run at the same time is not modelled. The
// tests of package store do that on a real server.
package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Outbox is the outbox of one order-service. It is not safe for use by several goroutines.
type Outbox struct {
	now       time.Time // the database's clock
	seq       int
	events    map[uuid.UUID]Event
	queue     map[uuid.UUID]*Queued
	claims    []*Claim
	topics    map[string]*Topic
	published []uuid.UUID
	overtaken []uuid.UUID
}

// Event is a row of outbox_events. It never changes.
type Event struct {
	ID        uuid.UUID
	Seq       int
	Order     uuid.UUID
	Version   int
	Topic     string
	CreatedAt time.Time
}

// Queued is a row of outbox_queue: an event that still has to be published.
type Queued struct {
	Event
	Due          time.Time // available_at, unless one of the next three makes that infinity
	Parked       bool      // it waits for an older event of its order
	Halted       bool      // halted: it waits until its topic's pause ends
	Failed       bool      // failed_at is set
	Supersedes   bool      // the older events of the order
	Attempts     int       // retry_count
	RefusedSince time.Time // refused_since
	Code         string    // failure_code
}

// Claim is a row of outbox_claims.
type Claim struct {
	Token  uuid.UUID
	Worker string
	Until  time.Time
	Events []uuid.UUID
}

// New returns an empty outbox, whose clock begins at now.
func New(now time.Time) *Outbox {
	return &Outbox{now: now, events: map[uuid.UUID]Event{}, queue: map[uuid.UUID]*Queued{}, topics: map[string]*Topic{}}
}

// Now returns the time of the database's clock.
func (o *Outbox) Now() time.Time { return o.now }

// Advance moves the database's clock.
func (o *Outbox) Advance(d time.Duration) { o.now = o.now.Add(d) }

// Append stores an event, in the log and in the queue. If it supersedes the older events of its order,
// these are overtaken. The id is the caller's.
func (o *Outbox) Append(id, order uuid.UUID, version int, topic string, supersedes bool) {
	o.seq++
	e := Event{ID: id, Seq: o.seq, Order: order, Version: version, Topic: topic, CreatedAt: o.now}
	o.events[id] = e
	o.queue[id] = &Queued{Event: e, Due: o.now, Supersedes: supersedes}
}

// Lose deletes an event from the log, as nobody should.
func (o *Outbox) Lose(id uuid.UUID) { delete(o.events, id) }

// Events returns the log, in the order of the inserts.
func (o *Outbox) Events() []Event { return sorted(o.events, func(e Event) Event { return e }) }

// Queue returns what still has to be published, in the order of the inserts.
func (o *Outbox) Queue() []Queued { return sorted(o.queue, func(q *Queued) Queued { return *q }) }

func sorted[V any, R interface{ seqOf() int }](rows map[uuid.UUID]V, row func(V) R) (all []R) {
	for _, v := range rows {
		all = append(all, row(v))
	}
	slices.SortFunc(all, func(a, b R) int { return cmp.Compare(a.seqOf(), b.seqOf()) })
	return all
}

func (e Event) seqOf() int { return e.Seq }

// Claims returns all claims, also those whose lease has ended: the next claim deletes them.
func (o *Outbox) Claims() (claims []Claim) {
	for _, c := range o.claims {
		claims = append(claims, *c)
	}
	return claims
}

// Published returns the events that are marked published, in the order of the marks.
func (o *Outbox) Published() []uuid.UUID { return slices.Clone(o.published) }

// Overtaken returns the events that are done without being sent, in the order in which they were settled.
func (o *Outbox) Overtaken() []uuid.UUID { return slices.Clone(o.overtaken) }

// isOvertaken reports whether a newer event of the queue supersedes the event.
func (o *Outbox) isOvertaken(older *Queued) bool {
	for _, q := range o.queue {
		if q.Order == older.Order && q.Version > older.Version && q.Supersedes {
			return true
		}
	}
	return false
}

// isDue is the condition of claims: available_at <= now().
func (o *Outbox) isDue(q *Queued) bool { return !q.infinite() && !q.Due.After(o.now) }

// infinite reports whether available_at is infinity.
func (q *Queued) infinite() bool { return q.Parked || q.Halted || q.Failed }

// makeDue is available_at = now().
func (o *Outbox) makeDue(q *Queued) { q.Parked, q.Halted, q.Due = false, false, o.now }

// oldest returns the oldest event of the queue that is of the same order.
func (o *Outbox) oldest(of *Queued) *Queued {
	oldest := of
	for _, q := range o.queue {
		if q.Order == of.Order && q.Version < oldest.Version {
			oldest = q
		}
	}
	return oldest
}

// claimed reports whether a claim holds the event, also one whose lease has ended.
func (o *Outbox) claimed(id uuid.UUID) bool {
	return slices.ContainsFunc(o.claims, func(c *Claim) bool { return slices.Contains(c.Events, id) })
}

// asClaimed returns what a relay gets.
func (o *Outbox) asClaimed(q *Queued) store.Event {
	return store.Event{
		ID: q.ID, Seq: int64(q.Seq), Topic: q.Topic, Aggregate: "order", AggregateID: q.Order.String(), Version: q.Version,
		RetryCount: q.Attempts, FailureCode: q.Code, Overtaken: o.isOvertaken(q),
		CreatedAt: q.CreatedAt, Age: o.now.Sub(q.CreatedAt).Seconds(),
	}
}
