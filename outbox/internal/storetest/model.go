// Package storetest has a model of package store: the same queue, in memory and in the caller's time.
// It has no floors, pages or locks, and it chooses freely where the store has an order of its own. A
// test of package store makes the same calls to both and compares them. The simulation of the relay
// runs on the model.
package storetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Model is the tables. Its methods are the transactions of package store and of operators. The caller
// lets one run at a time.
type Model struct {
	Now    func() time.Time
	Rows   map[uuid.UUID]Row    // outbox_queue
	Done   map[uuid.UUID]string // outbox_done: the status
	claims map[uuid.UUID]claim
	topics map[string]topic
	order  []uuid.UUID // of all events, by seq
}

// Row is a row of outbox_queue. Parking is not modelled.
type Row struct {
	store.Event

	Due          time.Time
	Halted       bool
	FailedAt     time.Time // zero: it has not failed
	RefusedSince time.Time // zero: it was not refused
	Code, Reason string    // of the failure
}

type claim struct {
	until  time.Time
	events []uuid.UUID
}

// New returns a model without events.
func New(now func() time.Time) *Model {
	return &Model{now, map[uuid.UUID]Row{}, map[uuid.UUID]string{}, map[uuid.UUID]claim{}, map[string]topic{}, nil}
}

// Copy returns a copy of the tables. No method changes a claim's list of events in place.
func (m *Model) Copy() *Model {
	return &Model{m.Now, maps.Clone(m.Rows), maps.Clone(m.Done), maps.Clone(m.claims), maps.Clone(m.topics), m.order}
}

// Append adds an event, which is due that much later.
func (m *Model) Append(e store.Event, delay time.Duration) {
	m.Rows[e.ID] = Row{Event: e, Due: m.Now().Add(delay)}
	m.order = append(m.order, e.ID)
}

// Status is that of the view outbox_status.
func (m *Model) Status(id uuid.UUID) string {
	q := m.look()
	r, there := m.Rows[id]
	switch {
	case !there:
		return m.Done[id]
	case !r.FailedAt.IsZero():
		return "failed"
	case q.isDue(r) && q.leased[id]:
		return "in_progress"
	}
	return "pending"
}

// Claimed returns the events of a claim.
func (m *Model) Claimed(token uuid.UUID) []uuid.UUID { return m.claims[token].events }

// Holder returns the claim that holds an event, if its lease has not ended.
func (m *Model) Holder(id uuid.UUID) (token uuid.UUID) {
	for one, c := range m.claims {
		if c.until.After(m.Now()) && slices.Contains(c.events, id) {
			return one
		}
	}
	return token
}

// Forgotten returns the claims of an older copy that have lost events or time, with their events.
func (m *Model) Forgotten(old *Model) map[uuid.UUID][]uuid.UUID {
	lost := map[uuid.UUID][]uuid.UUID{}
	for token, was := range old.claims {
		if is := m.claims[token]; len(is.events) < len(was.events) || is.until.Before(was.until) {
			lost[token] = was.events
		}
	}
	return lost
}

// queue is what a statement sees.
type queue struct {
	*Model
	now             time.Time
	rows            []Row               // by seq
	claimed, leased map[uuid.UUID]bool  // in all claims, and in those whose lease has not ended
	groups          map[[2]string][]Row // the aggregates, by version
}

func (m *Model) look() queue {
	q := queue{m, m.Now(), make([]Row, 0, len(m.Rows)), map[uuid.UUID]bool{}, map[uuid.UUID]bool{}, map[[2]string][]Row{}}
	for _, id := range m.order {
		if r, there := m.Rows[id]; there {
			key := [2]string{r.Aggregate, r.AggregateID}
			q.rows, q.groups[key] = append(q.rows, r), append(q.groups[key], r)
		}
	}
	for _, c := range m.claims {
		for _, id := range c.events {
			q.claimed[id] = true
			q.leased[id] = q.leased[id] || c.until.After(q.now)
		}
	}
	for _, group := range q.groups {
		slices.SortFunc(group, func(a, b Row) int { return cmp.Compare(a.Version, b.Version) })
	}
	return q
}

func (q queue) isDue(r Row) bool {
	return r.FailedAt.IsZero() && !r.Halted && !r.Due.After(q.now)
}

// next returns the event of the aggregate that goes next, and the oldest one.
func (q queue) next(r Row) (next, oldest Row) {
	if r.Aggregate == "" {
		return r, r
	}
	group := q.groups[[2]string{r.Aggregate, r.AggregateID}]
	next = group[0]
	for _, o := range group {
		if o.Version >= r.Version && o.Supersedes && (q.isDue(o) || o.Halted) {
			next = o
		}
	}
	return next, group[0]
}

// Claim takes events that are free: the first ones, after order has arranged them.
func (m *Model) Claim(token uuid.UUID, limit int, lease time.Duration, order func([]Row)) store.Claim {
	maps.DeleteFunc(m.claims, func(_ uuid.UUID, c claim) bool { return !c.until.After(m.Now()) })
	q := m.look()
	moved := m.putAside(q)
	if moved {
		q = m.look()
	}
	var free []Row
	for _, r := range q.rows {
		next, oldest := q.next(r)
		if q.isDue(r) && !q.claimed[r.ID] && next.ID == r.ID && !q.claimed[oldest.ID] && !m.isPaused(r.PauseName()) && !m.isPaused(store.AllTopics) {
			free = append(free, r)
		}
	}
	order(free)
	fit := fitting(free, limit)
	c := m.take(token, fit, lease)
	c.More = moved || len(fit) > 0 && len(fit) < len(free)
	for _, r := range q.rows { // as they were before the claim
		if r.FailedAt.IsZero() && !r.Halted && r.Due.After(q.now) {
			c.NextDue = sooner(c.NextDue, r.Due.Sub(q.now))
		}
	}
	return c
}

// putAside halts events of paused topics, and makes those due whose topic is not paused any more.
func (m *Model) putAside(q queue) (moved bool) {
	halted := map[string]bool{}
	for _, r := range q.rows {
		next, _ := q.next(r)
		switch isPaused := m.isPaused(r.PauseName()); {
		case q.claimed[r.ID]:
		case r.Halted && !isPaused:
			r.Halted, r.Due, moved = false, q.now, true
		case q.isDue(r) && isPaused && next.ID == r.ID:
			r.Halted, moved = true, true
		}
		m.Rows[r.ID] = r
		halted[r.PauseName()] = halted[r.PauseName()] || r.Halted
	}
	maps.DeleteFunc(m.topics, func(name string, t topic) bool { return t.resumed && !halted[name] })
	return moved
}

// take claims events, and supersedes what is older.
func (m *Model) take(token uuid.UUID, events []Row, lease time.Duration) store.Claim {
	c := store.Claim{Token: token}
	var taken claim
	for _, r := range events {
		if r.Supersedes {
			c.Superseded += m.supersede(r)
		}
		taken.events, c.Events = append(taken.events, r.ID), append(c.Events, r.Event)
	}
	if taken.until = m.Now().Add(lease); len(events) > 0 {
		m.claims[token] = taken
	}
	for _, t := range m.topics {
		if !t.resumed && !t.operator && !m.isPaused(store.AllTopics) {
			c.NextProbe = sooner(c.NextProbe, t.until.Sub(m.Now()))
		}
	}
	return c
}

func sooner(a *float64, in time.Duration) *float64 {
	if b := in.Seconds(); a == nil || b < *a {
		return &b
	}
	return a
}

func (m *Model) supersede(newer Row) (n int) {
	for id, o := range m.Rows {
		if newer.Aggregate != "" && o.Aggregate == newer.Aggregate && o.AggregateID == newer.AggregateID && o.Version < newer.Version {
			m.end(id, "superseded")
			n++
		}
	}
	return n
}

// end takes an event out of the queue. One that is done already keeps its status, unless it is
// published now.
func (m *Model) end(id uuid.UUID, status string) {
	delete(m.Rows, id)
	if m.Done[id] == "" || status == "published" {
		m.Done[id] = status
	}
}

// Settle writes what became of events.
func (m *Model) Settle(s store.Settlement) store.Settled {
	done, now := store.Settled{Failed: map[uuid.UUID]time.Time{}}, m.Now()
	for _, e := range s.Published {
		if e.Supersedes {
			m.supersede(Row{Event: e})
		}
		m.end(e.ID, "published")
	}
	c := m.claims[s.Token]
	for _, f := range s.Failures {
		r, there := m.Rows[f.ID]
		isHeld := slices.Contains(c.events, f.ID)
		c.events = slices.DeleteFunc(slices.Clone(c.events), func(id uuid.UUID) bool { return id == f.ID })
		if there && isHeld {
			done.Held++
			r.fail(f, now, s.GiveUp)
			m.Rows[f.ID] = r
		}
		if there && !r.FailedAt.IsZero() && r.Code == f.Code && r.Reason == f.Reason {
			done.Failed[f.ID] = r.FailedAt
		}
	}
	for _, id := range s.Halted {
		if r, there := m.Rows[id]; there && r.FailedAt.IsZero() && slices.Contains(c.events, id) {
			r.Halted = true
			m.Rows[id] = r
		}
	}
	if _, there := m.claims[s.Token]; there {
		m.claims[s.Token] = c
	}
	if s.End {
		delete(m.claims, s.Token)
	}
	m.settleTopics(s, now)
	return done
}

func (r *Row) fail(f store.Failure, now time.Time, giveUp time.Duration) {
	isOld := !r.RefusedSince.IsZero() && !r.RefusedSince.After(now.Add(-giveUp))
	fails := f.Final || f.Counts && r.RetryCount+1 >= store.LeastTries && isOld
	if f.Counts || f.Tried {
		r.RetryCount++
	}
	switch {
	case f.Counts && r.RefusedSince.IsZero():
		r.RefusedSince = now
	case !f.Counts && f.Code == store.CodeUnroutable:
		r.RefusedSince = time.Time{}
	}
	r.EndedSession = f.Code == store.CodeSessionClosed
	r.Code, r.Reason, r.Halted, r.Due = f.Code, f.Reason, f.Halt && !fails, now.Add(f.Delay)
	if fails {
		r.FailedAt = now
	}
}

// Renew makes leases longer that have not ended.
func (m *Model) Renew(tokens []uuid.UUID, lease time.Duration) (held []uuid.UUID) {
	for _, token := range tokens {
		if c := m.claims[token]; c.until.After(m.Now()) {
			c.until = m.Now().Add(lease)
			m.claims[token], held = c, append(held, token)
		}
	}
	return held
}

// Hold claims, for an operator, events that wait because a topic is paused.
func (m *Model) Hold(token uuid.UUID, ids []uuid.UUID) {
	maps.DeleteFunc(m.claims, func(_ uuid.UUID, c claim) bool { return !c.until.After(m.Now()) })
	q, held := m.look(), claim{until: m.Now().Add(30 * time.Second)}
	for _, id := range ids {
		r, there := m.Rows[id]
		if there && r.FailedAt.IsZero() && !q.claimed[id] && (r.Halted || m.isPaused(store.AllTopics)) {
			held.events = append(held.events, id)
		}
	}
	if len(held.events) > 0 {
		m.claims[token] = held
	}
}

// Discard discards those of the events that have failed, or that the operator's claim holds.
func (m *Model) Discard(token uuid.UUID, ids []uuid.UUID) (discarded []uuid.UUID) {
	for _, id := range ids {
		r, there := m.Rows[id]
		if there && (!r.FailedAt.IsZero() || slices.Contains(m.claims[token].events, id)) {
			m.end(id, "discarded")
			discarded = append(discarded, id)
		}
	}
	return discarded
}

// Replay makes events due that have failed.
func (m *Model) Replay(ids []uuid.UUID) {
	for _, id := range ids {
		if r, there := m.Rows[id]; there && !r.FailedAt.IsZero() {
			r.RetryCount, r.EndedSession = 0, false
			m.Rows[id] = Row{Event: r.Event, Due: m.Now()}
		}
	}
}
