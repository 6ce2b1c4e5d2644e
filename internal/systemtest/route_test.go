package systemtest

import (
	"slices"
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

// TestManyUnroutableEventsAreTriedOneByOne has thousands of one key, for which no queue is
// bound, and some of another key, which take no notice.
func TestManyUnroutableEventsAreTriedOneByOne(t *testing.T) {
	t.Parallel()
	const many, batch = 5000, "50"
	s := newSystem(t)
	s.bind("others", "order.created", nil)
	s.commit(slices.Repeat([]event{{"order.cancelled", "{}"}}, many)...)
	relay := s.runOrdersAs("relay", "RELAY_BATCH_SIZE="+batch, "RELAY_POLL_INTERVAL=50ms")
	s.awaitCount(s.orders, many, "SELECT count(*) FROM outbox_events WHERE failure_code = 'unroutable'")
	relay.awaitMetric("outbox_events_unroutable", many)
	before := relay.metric("outbox_unroutable_total")
	s.commit(slices.Repeat([]event{{"order.cancelled", "{}"}}, 500)...)
	s.commit(events(500)...)
	s.awaitCount(s.orders, 500, published)
	s.awaitCount(s.orders, many+500, "SELECT count(*) FROM outbox_events WHERE failure_code = 'unroutable'")
	// While it finds out: a batch for each worker and pause. Then one for each pause, and the
	// first batch of the new ones after it.
	if after := relay.metric("outbox_unroutable_total"); before > 1000 || after-before > 500 {
		t.Errorf("%v were returned, and then %v, of %d and then 500", before, after-before, many)
	}
	if n := len(relay.all("no queue is bound, events wait")); n != 1 {
		t.Errorf("it is told %d times, want once", n)
	}

	s.bind("late", "order.cancelled", nil)
	s.awaitCount(s.orders, many+1000, published)
	relay.await("a queue is bound again")
	if got := one[int](s, s.orders, "SELECT sum(retry_count)::int FROM outbox_events"); got != 0 {
		t.Errorf("%d attempts were spent on a missing queue, want none", got)
	}
}
