package system

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/env/check"
)

// awaitTimeout is the one limit for waiting. It limits only how long a failing test takes: no
// promise depends on it.
const awaitTimeout = 2 * time.Minute

// eventually polls a condition, and reports whether it held within the limit.
func eventually(holds func() bool) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(awaitTimeout); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

var must = check.Must // many lines have it

// exec executes a statement as the superuser.
func (s *system) exec(db *pgxpool.Pool, statement string) {
	s.Helper()
	check.Exec(s, db, statement)
}

// queryValue runs a query that returns one value.
func queryValue[V any](s *system, db *pgxpool.Pool, query string, args ...any) V {
	s.Helper()
	return check.Value[V](s, db, query, args...)
}

const (
	publishedCount = "SELECT count(*) FROM outbox_status WHERE status = 'published'"
	failedCount    = "SELECT count(*) FROM outbox_status WHERE status = 'failed'"

	// These are for notification-service.
	recordedCount = "SELECT count(*) FROM processed_messages"
	sentCount     = "SELECT count(*) FROM outbox_done WHERE status = 'published'"
	waitingCount  = "SELECT count(*) FROM outbox_queue"
)

// awaitCount waits until a query counts n rows.
func (s *system) awaitCount(db *pgxpool.Pool, n int, query string, args ...any) {
	s.Helper()
	got := 0
	if !eventually(func() bool { got = queryValue[int](s, db, query, args...); return got == n }) {
		s.Fatalf("%s: got %d, want %d", query, got, n)
	}
}

// wantCount wants a query to count n rows now.
func (s *system) wantCount(db *pgxpool.Pool, n int, query string) {
	s.Helper()
	if got := queryValue[int](s, db, query); got != n {
		s.Errorf("%s: got %d, want %d", query, got, n)
	}
}
