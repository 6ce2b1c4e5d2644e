package system

import (
	"slices"
	"testing"
	"time"
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
	s.fillQueue(auditQueue, emptyMessage)
	relay := s.runOrdersCommand("relay", twoAttempts...)
	ids := s.insertEvents(createdEvents(orders)...)

	relay.awaitMetric("outbox_broker_refuses_all", 1)
	relay.wantPage("/numbers", "the relay waits for the broker to take events")
	relay.awaitLog("the broker refuses every event, so the relay only probes and spends no attempts")
	before := relay.metric("outbox_refused_total")
	const probing = 5 * time.Second
	letTimePass(probing)
	// The pauses begin with 250 ms, and each is twice as long as the one before.
	if probes := relay.metric("outbox_refused_total") - before; probes == 0 || probes > 10 {
		t.Errorf("%v probes in %s, want some, and few", probes, probing)
	}
	s.wantNoAttempts()
	s.wantCount(0, s.ordersDB, orders, "SELECT count(*) FROM outbox_status WHERE status IN ('pending', 'in_progress')")

	s.clearPolicy()
	s.wantCount(shortTimeout, s.ordersDB, orders, publishedCount)
	relay.awaitNotRefused()
	s.wantNoAttempts()
	relay.awaitMetric("outbox_retries_total", 0)
	copies := s.readAuditQueue()
	copies.awaitMessages(orders)
	got := copies.ids()
	if lost := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(got, id) }); len(lost) > 0 {
		t.Errorf("%d events are published and not in the queue", len(lost))
	}
}

func (s *service) awaitNotRefused() {
	s.Helper()
	if !eventually(shortTimeout, func() bool { return s.metric("outbox_broker_refuses_all") == 0 }) {
		s.Error("it still reports that the broker refuses everything")
	}
}
