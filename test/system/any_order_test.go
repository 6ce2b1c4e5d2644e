package system

import (
	"fmt"
	"slices"
	"testing"
)

var permutations = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// TestP5P6EventsInAnyOrderLeaveTheSameState delivers the events of an order in every
// sequence, one at a time, and repeats all of them.
func TestP5P6EventsInAnyOrderLeaveTheSameState(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	notifications := s.startConsumer("CONSUMER_WORKERS=1", "CONSUMER_PREFETCH=1")
	var orders [][]orderEvent
	published := 0
	for _, permutation := range permutations {
		var arriving []orderEvent
		all := lifecycleEvents()
		for _, v := range permutation {
			arriving = append(arriving, all[v])
		}
		s.publishUntilRouted(arriving...)
		s.publishUntilRouted(arriving[0], arriving[2], arriving[1])
		published += 2 * len(arriving)
		orders = append(orders, arriving)
	}
	s.awaitOutcomes(published, []*service{notifications}, "success", "duplicate")
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
	s.wantFinalState(orders)
}

// TestP5P6ConcurrentEventsLeaveTheSameState has many workers in two processes, and every
// event three times, so that chance decides the order.
func TestP5P6ConcurrentEventsLeaveTheSameState(t *testing.T) {
	t.Parallel()
	const n, copies = 30, 3
	s := newSystem(t)
	processes := []*service{s.startConsumer(quickRetries), s.startConsumer(quickRetries)}
	warm := s.warmUp(processes)
	var orders [][]orderEvent
	var all []orderEvent
	for i := range n {
		events := lifecycleEvents()
		orders = append(orders, events)
		for _, v := range permutations[i%len(permutations)] {
			all = append(all, slices.Repeat(events[v:v+1], copies)...)
		}
	}
	s.publishUntilRouted(all...)
	s.awaitOutcomes(len(all)+len(warm), processes, "success", "duplicate")
	s.wantFinalState(orders)
}

// wantFinalState wants each order to be at its last version, and an e-mail of that version.
// An older version has an e-mail if it was sent, and none if it was superseded.
func (s *system) wantFinalState(orders [][]orderEvent) {
	s.Helper()
	emails := s.mail.emails()
	for _, events := range orders {
		if got := queryValue[int](s, s.notificationsDB, "SELECT last_version FROM order_progress WHERE order_id = $1", events[0].order); got != len(events) {
			s.Errorf("the order is at version %d, want %d", got, len(events))
		}
		for _, e := range events {
			status := s.status(e)
			want, allowed := 1, status == "sent"
			if e.version < len(events) && status == "superseded" {
				want, allowed = 0, true
			}
			if got := len(emails[e.messageID()]); got != want || !allowed {
				s.Errorf("version %d is %s, with %d e-mails", e.version, status, got)
			}
		}
	}
	s.wantNoDeadLetters()
}

func (s *system) status(e orderEvent) string {
	s.Helper()
	return queryValue[string](s, s.notificationsDB, "SELECT status FROM notifications WHERE message_id = $1", e.id)
}

func (s *system) wantStatus(e orderEvent, want string) {
	s.Helper()
	if got := s.status(e); got != want {
		s.Errorf("version %d is %s, want %s", e.version, got, want)
	}
}

// TestP6AnEventSupersededDuringARetryIsNotSent delivers a newer event between two attempts
// for an older one.
func TestP6AnEventSupersededDuringARetryIsNotSent(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	notifications := s.startConsumer(quickRetries)
	warm := s.warmUp([]*service{notifications})
	events := lifecycleEvents()[:2]
	asked, answer := s.mail.holdRecipient(events[0])
	s.publishUntilRouted(events[0])
	<-asked
	s.publishUntilRouted(events[1])
	s.awaitCount(s.notificationsDB, 1, fmt.Sprintf("%s AND message_id = '%s'", sentCount, events[1].id))
	answer(refused(451, always)(1))
	s.awaitOutcomes(len(warm)+2, []*service{notifications}, "success", "duplicate")
	s.wantStatus(events[0], "superseded")
	s.wantFinalState([][]orderEvent{events})
}
