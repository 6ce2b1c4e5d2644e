package systemtest

import (
	"net"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/servertest"
)

// TestP4P10ServersMayComeLateAndGo starts the services first and their servers last, and
// then takes each server away and gives it back.
func TestP4P10ServersMayComeLateAndGo(t *testing.T) {
	t.Parallel()
	database, broker := servertest.Postgres(t), servertest.RabbitMQ(t)
	s := newSystemOn(t, database, broker)
	must(t, database.Stop(t.Context()))
	must(t, broker.Stop(t.Context()))

	orders, notifications := s.runOrders(), s.runNotifications()
	orders.await("waiting for the database")
	notifications.await("waiting for the database")
	must(t, database.Start(t.Context()))
	address := orders.address()
	orders.await("no session with the broker, trying again")

	// P10: the broker is away, and orders are taken.
	s.place(orders)
	must(t, broker.Start(t.Context()))
	s.awaitCount(s.notifications, 1, sent)

	must(t, broker.Kill())
	s.place(orders)
	must(t, broker.Start(t.Context()))
	s.awaitCount(s.notifications, 2, sent)

	must(t, database.Kill())
	if _, err := place(t.Context(), address); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("with the database away: %v, want a 503", err)
	}
	must(t, database.Start(t.Context()))
	s.orders.Reset() // the test's own connections died as well
	s.notifications.Reset()
	s.awaitPlaced(address)
	s.awaitCount(s.notifications, 3, sent)
	if got := one[int](s, s.orders, "SELECT count(*) FROM outbox_events WHERE retry_count > 0 OR status = 'failed'"); got != 0 {
		t.Errorf("an outage spent the attempts of %d events", got)
	}
}

// awaitPlaced tries until an order is taken.
func (s *system) awaitPlaced(address string) {
	s.Helper()
	ask := time.NewTicker(50 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		_, err := place(s.Context(), address)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Fatal(err)
		}
	}
}

// awaitRefused waits until the API takes no more connections.
func (s *system) awaitRefused(orders *service) {
	s.Helper()
	address := strings.TrimPrefix(orders.address(), "http://")
	ask := time.NewTicker(10 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			s.Fatal("the API still takes connections")
		}
	}
}
