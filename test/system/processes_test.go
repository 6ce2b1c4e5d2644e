package system

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/env/servers"
)

// TestP4P10ServersMayStartLateAndRestart starts the services before their servers, then stops and
// starts each server, and deletes the exchange of the events.
func TestP4P10ServersMayStartLateAndRestart(t *testing.T) {
	t.Parallel()
	database, broker := servers.Postgres(t), servers.RabbitMQ(t)
	s := newSystemOn(t, database, broker)
	must(t, database.Stop(t.Context()))
	must(t, broker.Stop(t.Context()))

	orders, notifications := s.runOrders(), s.runNotifications()
	orders.awaitLog("waiting for the database")
	notifications.awaitLog("waiting for the database")
	must(t, database.Start(t.Context()))
	address := orders.address()
	orders.awaitLog("no session with the broker, trying again")

	// P10: the API takes orders while the broker is away.
	s.place(orders)
	must(t, broker.Start(t.Context()))
	s.awaitCount(s.notificationsDB, 1, sentCount)

	must(t, database.Kill())
	if _, err := place(t.Context(), address); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("with the database away: %v, want a 503", err)
	}
	must(t, database.Start(t.Context()))
	s.ordersDB.Reset() // the test's own connections died as well
	s.notificationsDB.Reset()
	s.awaitPlaced(address)
	s.awaitCount(s.notificationsDB, 2, sentCount)

	// RabbitMQ 3.10 forgets a queue that is not written to its table of queues: nothing is then its
	// leader ("leader not known").
	_, err := broker.Ctl(t.Context(), "eval", "[dets:sync(Table) || Table <- dets:all()].")
	must(t, err)
	must(t, broker.Kill())
	s.place(orders)
	must(t, broker.Start(t.Context()))
	s.awaitCount(s.notificationsDB, 3, sentCount)

	// The relay and the consumer declare what somebody deletes.
	s.withChannel(func(c *amqp.Channel) error { return c.ExchangeDelete(eventsExchange, false, false) })
	s.place(orders)
	s.awaitCount(s.notificationsDB, 4, sentCount)
	// An event that no queue takes is not refused, and neither is one without an exchange.
	orders.awaitMetric(0, "outbox_refused_total")
	s.wantCount(s.ordersDB, 0, failedCount)
}

// TestP12SIGTERMUnderLoadLosesAndRepeatsNothing ends both services while clients place orders, and
// starts them again.
func TestP12SIGTERMUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.recordEvents()
	notifications := s.startConsumer()
	orders := s.runOrders()
	clients := s.startLoad(8, orders)
	for range 3 {
		s.awaitMore(clients, 50)
		orders.stop()
		notifications.stop()
		orders, notifications = s.runOrders(), s.runNotifications()
		clients.sendTo(orders)
	}
	s.awaitMore(clients, 20)
	clients.stop()

	committed := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM orders")
	s.awaitCount(s.ordersDB, committed, publishedCount)
	s.awaitCount(s.notificationsDB, committed, sentCount)
	s.awaitCount(s.ordersDB, clients.count(), "SELECT count(*) FROM orders WHERE id = ANY ($1::uuid[])", clients.placed)
	all := copies.await(committed)
	ids := map[string]bool{}
	for _, d := range all {
		ids[d.MessageId] = true
	}
	if len(all) != committed || len(ids) != committed {
		t.Errorf("%d copies of %d events came, want one of each of %d orders", len(all), len(ids), committed)
	}
	if n, events := len(s.mail.Mails()), len(s.mail.Copies()); n != committed || events != committed {
		t.Errorf("%d e-mails about %d events came, want %d", n, events, committed)
	}
}
