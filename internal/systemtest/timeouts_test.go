package systemtest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestTheBoundsOfTheRolesSpendNothing has a lock that is held for longer than the roles
// wait, with the bounds of postgres/roles.sql made short. For both services that is the
// database being away: nothing is refused for good, and nothing counts as an attempt.
func TestTheBoundsOfTheRolesSpendNothing(t *testing.T) {
	t.Parallel()
	for _, bound := range []string{"lock_timeout", "statement_timeout"} {
		t.Run(bound, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.shorten(bound)
			orders, notifications := s.runOrders(), s.consuming(quick)
			s.place(orders)
			s.awaitCount(s.notifications, 1, sent)

			letGo := s.lock(s.orders, "orders, outbox_events")
			if _, err := place(t.Context(), orders.address()); err == nil || !strings.Contains(err.Error(), "503") {
				t.Errorf("behind a lock: %v, want a 503", err)
			}
			orders.await("cannot claim from the outbox")
			letGo()
			letGo = s.lockInbox()
			s.awaitPlaced(orders.address())
			notifications.await("message held")
			letGo()

			s.awaitCount(s.notifications, 2, sent)
			for _, series := range []string{"consumer_retries_total", "consumer_dlq_published_total", "consumer_processing_failed_total"} {
				notifications.awaitMetric(series, 0)
			}
			if got := one[int](s, s.orders, "SELECT count(*) FROM outbox_events WHERE retry_count > 0 OR failed_at IS NOT NULL"); got != 0 {
				t.Errorf("a lock spent the attempts of %d events", got)
			}
		})
	}
}

// shorten makes a bound of both roles short, in this test's databases alone.
func (s *system) shorten(bound string) {
	s.Helper()
	for role, db := range map[string]*pgxpool.Pool{"order_service": s.orders, "notification_service": s.notifications} {
		name := one[string](s, db, "SELECT current_database()::text")
		_, err := db.Exec(s.Context(), "ALTER ROLE "+role+" IN DATABASE "+name+" SET "+bound+" = '200ms'")
		must(s.T, err)
	}
}

// lock makes everybody wait who wants to do anything with these tables.
func (s *system) lock(db *pgxpool.Pool, tables string) (release func()) {
	s.Helper()
	tx, err := db.Begin(s.Context())
	must(s.T, err)
	end := sync.OnceValue(func() error { return tx.Rollback(context.WithoutCancel(s.Context())) })
	s.Cleanup(func() { _ = end() })
	_, err = tx.Exec(s.Context(), "LOCK TABLE "+tables)
	must(s.T, err)
	return func() { must(s.T, end()) }
}

// TestTheServicesComeAsTheirRolesAndUsers looks from the servers' side, so that all other
// tests are known to be about them.
func TestTheServicesComeAsTheirRolesAndUsers(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	orders := s.runOrders()
	orders.await("connected to the broker")
	s.runNotifications().await("taking messages")
	s.place(orders)
	s.awaitCount(s.notifications, 1, sent)
	for want, db := range map[string]*pgxpool.Pool{"order_service": s.orders, "notification_service": s.notifications} {
		if got := one[string](s, db, `SELECT string_agg(DISTINCT usename, ', ') FROM pg_stat_activity
			WHERE datname = current_database() AND application_name <> $1`, ourselves); got != want {
			t.Errorf("in the database of %s: %s", want, got)
		}
	}
	users, err := s.broker.Ctl(t.Context(), "list_connections", "user", "vhost")
	must(t, err)
	for _, want := range []string{orderService, notificationService} {
		if !strings.Contains(users, want+"\t"+s.vhost()) {
			t.Errorf("%s is not connected as itself: %s", want, users)
		}
	}
	if strings.Contains(users, "guest\t"+s.vhost()) {
		t.Errorf("a guest is connected: %s", users)
	}
}
