package system

import (
	"slices"
	"testing"
)

// everyQueueIsFull makes every queue refuse messages when it has one.
const everyQueueIsFull = `{"max-length": 1, "overflow": "reject-publish"}`

// TestP4ABrokerThatRefusesEverythingIsAnOutage makes every queue refuse the events of 100 orders.
func TestP4ABrokerThatRefusesEverythingIsAnOutage(t *testing.T) {
	t.Parallel()
	const orders = 100
	s := newSystem(t)
	s.bindAuditQueue()
	s.setPolicy(".*", everyQueueIsFull)
	s.fillQueue(auditQueue)
	relay := s.runOrdersCommand("relay", "RELAY_RETRY_BASE=10ms", "RELAY_RETRY_CAP=100ms", "RELAY_POLL_INTERVAL=10ms")
	ids := s.insertEvents(createdEvents(orders)...)

	s.awaitCount(s.ordersDB, 1, pausedCount)
	relay.awaitMetric("outbox_events_halted", orders)
	tried := relay.metric("outbox_refused_total")
	if !eventually(awaitTimeout, func() bool { return relay.metric("outbox_refused_total") > tried }) {
		t.Error("no event is tried while the topic is paused")
	}
	s.wantCount(0, s.ordersDB, orders, "SELECT count(*) FROM outbox_status WHERE status IN ('pending', 'in_progress')")

	s.clearPolicy()
	s.wantCount(awaitTimeout, s.ordersDB, orders, publishedCount)
	s.awaitCount(s.ordersDB, 0, "SELECT count(*) FROM outbox_topics")
	relay.awaitMetric("outbox_topics_paused", 0)
	copies := s.readAuditQueue()
	copies.awaitMessages(orders)
	got := copies.ids()
	if lost := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(got, id) }); len(lost) > 0 {
		t.Errorf("%d events are published and not in the queue", len(lost))
	}
}
