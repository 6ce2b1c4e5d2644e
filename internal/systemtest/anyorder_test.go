package systemtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// versions are the events of an order: created, confirmed, cancelled.
func versions() []orderEvent {
	order := uuid.New()
	return []orderEvent{
		{uuid.New(), order, "order.created", 1},
		{uuid.New(), order, "order.confirmed", 2},
		{uuid.New(), order, "order.cancelled", 3},
	}
}

var permutations = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// TestP5P6EventsInAnyOrderLeaveTheSameState delivers the events of an order in each
// order, one at a time, and some of them again later.
func TestP5P6EventsInAnyOrderLeaveTheSameState(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	notifications := s.consuming("CONSUMER_WORKERS=1", "CONSUMER_PREFETCH=1")
	var orders [][]orderEvent
	posted := 0
	for _, permutation := range permutations {
		var arriving []orderEvent
		all := versions()
		for _, v := range permutation {
			arriving = append(arriving, all[v])
		}
		s.post(arriving...)
		s.post(arriving[0], arriving[2], arriving[1])
		posted += 2 * len(arriving)
		orders = append(orders, arriving)
	}
	s.awaitOutcomes(posted, []*service{notifications}, "success", "duplicate")
	for _, arriving := range orders {
		newest := 0
		for _, e := range arriving {
			want := "superseded"
			if e.version > newest {
				newest, want = e.version, "sent"
			}
			s.wantStatus(e, want)
		}
	}
	s.wantFinal(orders)
}

// TestP5P6EventsAtTheSameTimeLeaveTheSameState leaves the order to chance: many workers
// of two processes, and every event three times.
func TestP5P6EventsAtTheSameTimeLeaveTheSameState(t *testing.T) {
	t.Parallel()
	const n, copies = 30, 3
	s := newSystem(t)
	processes := []*service{s.consuming(quick), s.consuming(quick)}
	warm := s.warmUp(processes)
	var orders [][]orderEvent
	var all []orderEvent
	for i := range n {
		events := versions()
		orders = append(orders, events)
		for _, v := range permutations[i%len(permutations)] {
			all = append(all, slices.Repeat(events[v:v+1], copies)...)
		}
	}
	s.post(all...)
	s.awaitOutcomes(len(all)+len(warm), processes, "success", "duplicate")
	s.wantFinal(orders)
}

// wantFinal wants each order at its last version, and that one sent; of the older ones,
// an e-mail if they were sent and none if they were superseded.
func (s *system) wantFinal(orders [][]orderEvent) {
	s.Helper()
	letters := s.mail.letters()
	for _, events := range orders {
		if got := one[int](s, s.notifications, "SELECT last_version FROM order_progress WHERE order_id = $1", events[0].order); got != len(events) {
			s.Errorf("the order is at version %d, want %d", got, len(events))
		}
		for _, e := range events {
			status := s.status(e)
			want, allowed := 1, status == "sent"
			if e.version < len(events) && status == "superseded" {
				want, allowed = 0, true
			}
			if got := len(letters[e.messageID()]); got != want || !allowed {
				s.Errorf("version %d is %s, with %d e-mails", e.version, status, got)
			}
		}
	}
	s.wantNoneDead()
}

func (s *system) status(e orderEvent) string {
	s.Helper()
	return one[string](s, s.notifications, "SELECT status FROM notifications WHERE message_id = $1", e.id)
}

func (s *system) wantStatus(e orderEvent, want string) {
	s.Helper()
	if got := s.status(e); got != want {
		s.Errorf("version %d is %s, want %s", e.version, got, want)
	}
}

// TestP6WhatIsSupersededWhileItWaitsForARetryIsNotSent lets a newer event come between
// two tries of an older one.
func TestP6WhatIsSupersededWhileItWaitsForARetryIsNotSent(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	notifications := s.consuming(quick)
	warm := s.warmUp([]*service{notifications})
	events := versions()[:2]
	asked, answer := s.mail.hold(events[0])
	s.post(events[0])
	<-asked
	s.post(events[1])
	s.awaitCount(s.notifications, 1, fmt.Sprintf("%s AND message_id = '%s'", sent, events[1].id))
	answer(refused(451, always)(1))
	s.awaitOutcomes(len(warm)+2, []*service{notifications}, "success", "duplicate")
	s.wantStatus(events[0], "superseded")
	s.wantFinal([][]orderEvent{events})
}
