package system

import (
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP3NothingIsPublishedUntilAQueueIsBound places orders before the consumer declares its
// queue. The broker confirms such messages and drops them.
func TestP3NothingIsPublishedUntilAQueueIsBound(t *testing.T) {
	t.Parallel()
	const n = 100
	s := newSystem(t)
	orders := s.runOrders()
	for range n {
		s.place(orders)
	}
	s.awaitCount(s.ordersDB, n, "SELECT count(*) FROM outbox_status WHERE failure_code = 'unroutable'")
	if got := queryValue[int](s, s.ordersDB, publishedCount); got != 0 {
		t.Errorf("%d events are published, but no queue was bound", got)
	}

	s.runNotifications()
	s.awaitCount(s.notificationsDB, n, sentCount)
	s.awaitCount(s.ordersDB, n, publishedCount)
	s.wantNoAttempts()
}

// TestManyUnroutableEventsAreTriedOneByOne inserts thousands of events of one key, for which
// no queue is bound. Events of another key are published meanwhile.
func TestManyUnroutableEventsAreTriedOneByOne(t *testing.T) {
	t.Parallel()
	const many, batch = 5000, "50"
	s := newSystem(t)
	s.declareBoundQueue("others", "order.created", nil)
	s.insertEvents(slices.Repeat([]outboxEvent{{"order.cancelled", "{}"}}, many)...)
	relay := s.runOrdersCommand("relay", "RELAY_WINDOW="+batch, "RELAY_POLL_INTERVAL=50ms")
	s.awaitCount(s.ordersDB, many, "SELECT count(*) FROM outbox_status WHERE failure_code = 'unroutable'")
	relay.awaitMetric("outbox_events_unroutable", many)
	before := relay.metric("outbox_unroutable_total")
	s.insertEvents(slices.Repeat([]outboxEvent{{"order.cancelled", "{}"}}, 500)...)
	s.insertEvents(createdEvents(500)...)
	s.awaitCount(s.ordersDB, 500, publishedCount)
	s.awaitCount(s.ordersDB, many+500, "SELECT count(*) FROM outbox_status WHERE failure_code = 'unroutable'")
	// Until the relay knows that the key has no queue, each worker sends a batch after each
	// pause. After that, the relay sends one event after each pause, and the first batch of the
	// new events.
	if after := relay.metric("outbox_unroutable_total"); before > 1000 || after-before > 500 {
		t.Errorf("%v of %d events were returned, then %v of 500 more", before, many, after-before)
	}
	if n := len(relay.logLines("no queue is bound, events wait")); n != 1 {
		t.Errorf("it is logged %d times, want once", n)
	}

	s.declareBoundQueue("late", "order.cancelled", nil)
	s.awaitCount(s.ordersDB, many+1000, publishedCount)
	relay.awaitLog("a queue is bound again")
	s.wantNoAttempts()
}

// TestP3DeletedRoutesLoseNothingUnderLoad deletes the binding and the exchange while clients
// place orders.
func TestP3DeletedRoutesLoseNothingUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.bindAuditQueue()
	orders := s.runOrders("RELAY_POLL_INTERVAL=10ms")
	clients := s.startLoad(2, orders)
	clients.awaitMore(t, 20)
	for range 3 {
		before := orders.logLength()
		s.withChannel(func(c *amqp.Channel) error { return c.QueueUnbind(auditQueue, "#", eventsExchange, nil) })
		orders.awaitLogAfter(before, "no queue is bound, events wait")
		clients.awaitMore(t, 20)
		s.bindAuditQueue()
		s.awaitPublished()
	}
	for range 3 {
		before := orders.logLength()
		s.deleteExchange(eventsExchange)
		// The missing exchange is an error that ends the session. The next session declares it.
		orders.awaitLogAfter(before, "connected to the broker")
		clients.awaitMore(t, 20)
		s.bindAuditQueue()
		s.awaitPublished()
	}
	clients.stop()
	s.wantAuditQueueComplete(clients)
}
