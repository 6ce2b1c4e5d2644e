package system

import (
	"context"
	"fmt"
	"syscall"
	"testing"
)

// wantOrdersDelivered wants each placed order to exist, its event to be published and its
// e-mail to be sent. At most so many events and e-mails may be repeated.
func (s *system) wantOrdersDelivered(l *load, copies *subscriber, repeats int) {
	s.Helper()
	orders := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM orders")
	s.awaitCount(s.ordersDB, orders, publishedCount)
	s.awaitCount(s.notificationsDB, orders, sentCount)
	known := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM orders WHERE id = ANY ($1::uuid[])", l.placed)
	if known != l.count() || known == 0 {
		s.Errorf("%d of %d acknowledged orders exist", known, l.count())
	}
	copies.awaitMessages(orders)
	if got := copies.messages(); got != orders {
		s.Errorf("%d messages of %d orders", got, orders)
	}
	if got := copies.repeats(); got > repeats {
		s.Errorf("%d messages came twice, want at most %d", got, repeats)
	}
	s.wantEmails(orders, repeats)
	s.Logf("%d orders acknowledged, %d committed, %d copies beyond the first", l.count(), orders, copies.repeats())
}

func TestP12SIGTERMUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.subscribe()
	notifications := s.runNotifications()
	notifications.awaitReadyz()
	orders := s.runOrders()
	clients := s.startLoad(8, orders)
	for range 3 {
		clients.awaitMore(t, 50)
		orders.stop()
		notifications.stop()
		orders, notifications = s.runOrders(), s.runNotifications()
		clients.sendTo(orders)
	}
	clients.awaitMore(t, 20)
	clients.stop()
	s.wantOrdersDelivered(clients, copies, 0)
}

// TestP12SIGTERMOfARelayInMidBatchRepeatsNothing stops relays that have a batch in flight. The
// API is another process, so clients place orders all the time.
func TestP12SIGTERMOfARelayInMidBatchRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.subscribe()
	s.runNotifications().awaitReadyz()
	clients := s.startLoad(8, s.runOrdersCommand("api"))
	for range 5 {
		relay := s.runOrdersCommand("relay", "RELAY_POLL_INTERVAL=10ms")
		relay.awaitLog("message published")
		clients.awaitMore(t, 50)
		relay.stop()
	}
	s.runOrdersCommand("relay")
	clients.stop()
	s.wantOrdersDelivered(clients, copies, 0)
}

func TestP12SIGKILLUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	const (
		kills   = 3
		workers = 2
		window  = 20
	)
	s := newSystem(t)
	copies := s.subscribe()
	// With a short lease, what a killed relay had in hand is published soon.
	settings := []string{"RELAY_LEASE=5s", fmt.Sprint("RELAY_WINDOW=", window)}
	notifications := s.runNotifications()
	notifications.awaitReadyz()
	orders := s.runOrders(settings...)
	clients := s.startLoad(8, orders)
	for range kills {
		clients.awaitMore(t, 50)
		orders.kill()
		orders = s.runOrders(settings...)
		clients.sendTo(orders)
	}
	clients.awaitMore(t, 20)
	clients.stop()
	s.wantOrdersDelivered(clients, copies, kills*workers*window)
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	orders := s.runOrders()
	s.place(orders)
	// A request that waits in its transaction delays the shutdown.
	tx, err := s.ordersDB.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "LOCK TABLE outbox_events")
	must(t, err)
	go func() { _, _ = place(t.Context(), orders.address()) }()
	s.awaitCount(s.ordersDB, 1, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO outbox_events%'")
	orders.signal(syscall.SIGTERM)
	s.awaitAPIClosed(orders)
	orders.signal(syscall.SIGTERM)
	orders.wait()
	if orders.command.ProcessState.Success() {
		t.Error("it ended with 0 during a request")
	}
}
