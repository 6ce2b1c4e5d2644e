package system

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestDatabaseTimeoutsUseNoAttempts holds a lock for longer than the timeouts of the roles in
// deploy/postgres/roles.sql, which it makes short. Both services must treat this like an
// unavailable database: no message or event is rejected, and no attempt is counted.
func TestDatabaseTimeoutsUseNoAttempts(t *testing.T) {
	t.Parallel()
	for _, timeout := range []string{"lock_timeout", "statement_timeout"} {
		t.Run(timeout, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.shortenTimeout(timeout)
			orders, notifications := s.runOrders(), s.startConsumer(quickRetries)
			s.place(orders)
			s.awaitCount(s.notificationsDB, 1, sentCount)

			release := s.lock(s.ordersDB, "orders, outbox_events, outbox_queue")
			if _, err := place(t.Context(), orders.address()); err == nil || !strings.Contains(err.Error(), "503") {
				t.Errorf("behind a lock: %v, want a 503", err)
			}
			orders.awaitLog("cannot claim from the outbox")
			release()
			release = s.lockInbox()
			s.awaitPlaced(orders.address())
			notifications.awaitLog("message held")
			release()

			s.awaitCount(s.notificationsDB, 2, sentCount)
			notifications.wantNoFailures()
			s.wantNoAttempts()
		})
	}
}

// shortenTimeout sets a timeout of both roles to 200 ms, only in the databases of this test.
func (s *system) shortenTimeout(timeout string) {
	s.Helper()
	for role, db := range map[string]*pgxpool.Pool{"order_service": s.ordersDB, "notification_service": s.notificationsDB} {
		name := queryValue[string](s, db, "SELECT current_database()::text")
		_, err := db.Exec(s.Context(), "ALTER ROLE "+role+" IN DATABASE "+name+" SET "+timeout+" = '200ms'")
		must(s.T, err)
	}
}

// lock locks tables, so that every other transaction waits for them until release.
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
