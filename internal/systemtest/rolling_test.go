package systemtest

import (
	"testing"
)

// TestP5P6P12ConsumersThatComeAndGoUnderLoad replaces one process after the other, by
// SIGTERM and by SIGKILL in turn, while orders come.
func TestP5P6P12ConsumersThatComeAndGoUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds, workers = 4, 8
	s := newSystem(t)
	clients := s.load(2, s.runOrders())
	var running []*service
	for range 3 {
		running = append(running, s.runNotifications(quick))
	}
	kills := 0
	for round := range rounds {
		clients.awaitMore(t, 30)
		oldest := running[0]
		oldest.await("message arrived") // so that there is something to break off
		if round%2 == 0 {
			oldest.stop()
		} else {
			oldest.kill()
			kills++
		}
		running = append(running[1:], s.runNotifications(quick))
	}
	clients.awaitMore(t, 30)
	clients.stop()
	// What is left in sending, after all have ended in order, was the killed ones'.
	for _, p := range running {
		p.stop()
	}
	s.endLeases()
	s.runNotifications(quick)
	s.wantNotified(clients, kills*workers)
}

// wantNotified wants one notification of each order, sent, and at most so many e-mails
// twice.
func (s *system) wantNotified(l *load, repeats int) {
	s.Helper()
	orders := one[int](s, s.orders, "SELECT count(*) FROM orders")
	s.awaitCount(s.orders, orders, published)
	s.awaitCount(s.notifications, orders, sent)
	s.awaitReady(0)
	known := one[int](s, s.notifications, "SELECT count(DISTINCT order_id) FROM notifications WHERE order_id = ANY ($1::uuid[])", l.placed)
	if known != l.count() || known == 0 {
		s.Errorf("notifications of %d orders, want of %d", known, l.count())
	}
	for _, table := range []string{"notifications", "processed_messages"} {
		if got := one[int](s, s.notifications, "SELECT count(*) FROM "+table); got != orders {
			s.Errorf("%d rows in %s, want %d", got, table, orders)
		}
	}
	letters, extra := s.mail.letters(), 0
	for _, same := range letters {
		extra += len(same) - 1
	}
	if len(letters) != orders || extra > repeats {
		s.Errorf("e-mails of %d orders and %d repeats, want %d and at most %d", len(letters), extra, orders, repeats)
	}
	s.wantNoneDead()
	s.Logf("%d orders, %d e-mails twice", orders, extra)
}
