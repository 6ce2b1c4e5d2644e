package system

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/test/servers"
)

// TestP4P10ServersMayStartLateAndRestart starts the services before their servers, and then
// stops and starts each server.
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
	orders.awaitLog(logNoSession)

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

	// Not right after the queue was declared: RabbitMQ 3.10 was killed when a queue was a quarter of
	// a second old, and that queue never had a leader again ("leader not known").
	must(t, broker.Kill())
	s.place(orders)
	must(t, broker.Start(t.Context()))
	s.awaitCount(s.notificationsDB, 3, sentCount)
	s.wantNothingRefused(orders)
}
