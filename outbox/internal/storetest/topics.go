package storetest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

type topic struct {
	until    time.Time
	pause    time.Duration
	reason   string
	operator bool // who has paused it
	resumed  bool
}

// isPaused reports whether a topic is paused.
func (m *Model) isPaused(name string) bool {
	t, there := m.topics[name]
	return there && !t.resumed
}

// ClaimProbes takes probes of each topic whose pause is over: the first ones in this order.
func (m *Model) ClaimProbes(token uuid.UUID, limit int, lease time.Duration, order func([]Row)) store.Claim {
	q := m.look()
	var ready []string
	for name, t := range m.topics {
		if !t.resumed && !t.operator && !t.until.After(q.now) && !m.isPaused(store.AllTopics) {
			ready = append(ready, name)
		}
	}
	isSilent := func(name string) int { return strings.Count(m.topics[name].reason, "no answer") }
	slices.SortFunc(ready, func(a, b string) int {
		return cmp.Or(isSilent(a)-isSilent(b), m.topics[a].until.Compare(m.topics[b].until))
	})
	ready = ready[:min(limit, len(ready))]
	var probes []Row
	for _, name := range ready {
		t := m.topics[name]
		var free []Row
		t.resumed, t.until = true, q.now.Add(time.Second)
		for _, r := range q.rows {
			next, oldest := q.next(r)
			if r.PauseName() != name || !r.Halted && (!q.isDue(r) || q.claimed[r.ID] || next.ID != r.ID) {
				continue // an event that is not the next one is parked
			}
			t.resumed = false
			if r.Halted && !q.claimed[r.ID] && next.ID == r.ID && !q.claimed[oldest.ID] {
				free = append(free, r)
			}
		}
		order(free)
		each := max(limit/len(ready), 1)
		if isSilent(name) > 0 {
			each = 1
		}
		for _, r := range free[:min(each, len(free))] {
			probes, t.until = append(probes, r), q.now.Add(t.pause+10*time.Second)
		}
		m.topics[name] = t
	}
	return m.take(token, fitting(probes, limit), lease)
}

// fitting returns the first rows: at most limit, and fewer if they are large.
func fitting(rows []Row, limit int) []Row {
	n, bytes := 0, 0
	for n < min(limit, len(rows)) && bytes < store.MaxClaimBytes {
		bytes += len(rows[n].Payload)
		n++
	}
	return rows[:n]
}

func (m *Model) settleTopics(s store.Settlement, now time.Time) {
	for name, reason := range s.Paused {
		t, there := m.topics[name]
		switch {
		case !there || t.resumed:
			t = topic{pause: s.FirstPause}
		case t.operator || !s.Longer:
			continue
		default:
			t.pause = min(2*t.pause, s.LongestPause)
		}
		t.reason, t.until = reason, now.Add(t.pause)
		m.topics[name] = t
	}
	for _, name := range s.ProbeAgain {
		if t := m.topics[name]; m.isPaused(name) && !t.operator {
			t.until = now
			m.topics[name] = t
		}
	}
	for _, name := range s.Resumed {
		if !m.topics[name].operator {
			m.Resume(name)
		}
	}
}

// Pause pauses a topic until an operator resumes it.
func (m *Model) Pause(name string) { m.topics[name] = topic{operator: true} }

// Resume ends a pause.
func (m *Model) Resume(name string) {
	if t, there := m.topics[name]; there {
		t.resumed, t.operator = true, false
		m.topics[name] = t
	}
}
