package system

import (
	"testing"
)

// TestP5P6P12ConsumersAreReplacedUnderLoad replaces one process after the other while clients
// place orders. It ends them by SIGTERM and by SIGKILL in turn.
func TestP5P6P12ConsumersAreReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds = 4
	s := newSystem(t)
	clients := s.startLoad(2, s.runOrders())
	var running []*service
	for range 3 {
		running = append(running, s.runNotifications(quickRetries))
	}
	kills := 0
	for round := range rounds {
		clients.awaitMore(t, 30)
		oldest := running[0]
		oldest.awaitLog("message arrived") // so that the end interrupts some work
		if round%2 == 0 {
			oldest.stop()
		} else {
			oldest.kill()
			kills++
		}
		running = append(running[1:], s.runNotifications(quickRetries))
	}
	clients.awaitMore(t, 30)
	clients.stop()
	// These processes end cleanly. So leases that remain belong to the killed processes.
	for _, p := range running {
		p.stop()
	}
	s.expireLeases()
	s.runNotifications(quickRetries)
	// A worker takes the next message while the mark of its last e-mail is written. So a kill may
	// repeat two e-mails for each worker.
	s.wantNotified(clients, kills*2*workers)
}

// wantNotified wants one sent notification for each order, and at most so many repeated
// e-mails.
func (s *system) wantNotified(l *load, repeats int) {
	s.Helper()
	orders := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM orders")
	s.awaitCount(s.ordersDB, orders, publishedCount)
	s.awaitCount(s.notificationsDB, orders, sentCount)
	s.awaitReadyMessages(0)
	known := queryValue[int](s, s.notificationsDB, "SELECT count(DISTINCT order_id) FROM notifications WHERE order_id = ANY ($1::uuid[])", l.placed)
	if known != l.count() || known == 0 {
		s.Errorf("notifications of %d orders, want of %d", known, l.count())
	}
	for _, table := range []string{"notifications", "processed_messages"} {
		if got := queryValue[int](s, s.notificationsDB, "SELECT count(*) FROM "+table); got != orders {
			s.Errorf("%d rows in %s, want %d", got, table, orders)
		}
	}
	s.wantEmails(orders, repeats)
	s.wantNoDeadLetters()
	s.Logf("%d orders", orders)
}
