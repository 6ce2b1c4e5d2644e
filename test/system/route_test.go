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
	s.awaitCount(s.ordersDB, n, haltedCount)
	if got := queryValue[int](s, s.ordersDB, publishedCount); got != 0 {
		t.Errorf("%d events are published, but no queue was bound", got)
	}

	s.runNotifications()
	s.awaitCount(s.notificationsDB, n, sentCount)
	s.awaitCount(s.ordersDB, n, publishedCount)
	s.wantNothingRefused(orders)
}

// TestP4ManyUnroutableEventsAreTriedOneByOne inserts thousands of events of one topic, for which
// no queue is bound. Events of another topic are published meanwhile.
func TestP4ManyUnroutableEventsAreTriedOneByOne(t *testing.T) {
	t.Parallel()
	const many, window = 5000, "50"
	s := newSystem(t)
	s.declareBoundQueue("others", "order.created", nil)
	s.insertEvents(slices.Repeat([]outboxEvent{{"order.cancelled", "{}"}}, many)...)
	relay := s.runOrdersCommand("relay", "RELAY_WINDOW="+window, "RELAY_POLL_INTERVAL=50ms")
	s.awaitCount(s.ordersDB, many, haltedCount)
	relay.awaitMetric("outbox_events_halted", many)
	s.insertEvents(slices.Repeat([]outboxEvent{{"order.cancelled", "{}"}}, 500)...)
	s.insertEvents(createdEvents(500)...)
	s.awaitCount(s.ordersDB, 500, publishedCount)
	s.awaitCount(s.ordersDB, many+500, haltedCount)
	// Until the topic is paused, each worker sends what its window takes. After that, the relay
	// sends one event after each pause.
	if returned := relay.metric("outbox_unroutable_total"); returned > many/2 {
		t.Errorf("%v of %d events were returned", returned, many+500)
	}
	relay.awaitMetric("outbox_topics_paused", 1)

	s.declareBoundQueue("late", "order.cancelled", nil)
	s.wantCount(awaitTimeout, s.ordersDB, many+1000, publishedCount)
	s.awaitCount(s.ordersDB, 0, "SELECT count(*) FROM outbox_topics")
	s.wantNothingRefused(relay)
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
		s.withChannel(func(c *amqp.Channel) error { return c.QueueUnbind(auditQueue, "#", eventsExchange, nil) })
		s.awaitCount(s.ordersDB, 1, pausedCount)
		clients.awaitMore(t, 20)
		s.bindAuditQueue()
		s.awaitPublished()
	}
	for range 3 {
		s.deleteExchange(eventsExchange)
		// The missing exchange ends the publisher. The next one declares it, and no queue is bound.
		s.awaitCount(s.ordersDB, 1, pausedCount+" AND reason ILIKE '%no queue%'")
		clients.awaitMore(t, 20)
		s.bindAuditQueue()
		s.awaitPublished()
	}
	clients.stop()
	s.wantAuditQueueComplete(clients)
	s.wantNothingRefused(orders)
}
