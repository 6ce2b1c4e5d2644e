package systemtest

import (
	"testing"
)

// TestP3NothingIsPublishedUntilAQueueIsBound lets the orders come before the
// consumer has ever been there: the broker confirms such messages, and drops them.
func TestP3NothingIsPublishedUntilAQueueIsBound(t *testing.T) {
	t.Parallel()
	const n = 100
	s := newSystem(t)
	orders := s.runOrders()
	for range n {
		s.place(orders)
	}
	s.awaitCount(s.orders, n, "SELECT count(*) FROM outbox_events WHERE failure_code = 'unroutable'")
	if got := one[int](s, s.orders, published); got != 0 {
		t.Errorf("%d events are published, and no queue was bound", got)
	}

	s.runNotifications()
	s.awaitCount(s.notifications, n, sent)
	s.awaitCount(s.orders, n, published)
	if got := one[int](s, s.orders, "SELECT sum(retry_count)::int FROM outbox_events"); got != 0 {
		t.Errorf("%d attempts were spent on a missing queue, want none", got)
	}
}
