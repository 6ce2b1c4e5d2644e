package system

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// awaitTimeout bounds the wait for an event. It limits only how long a failing test takes:
// no promise depends on it.
const awaitTimeout = 2 * time.Minute

// eventually polls a condition, and reports whether it held within the limit.
func eventually(limit time.Duration, holds func() bool) bool {
	return poll(50*time.Millisecond, limit, holds)
}

// poll is eventually with another interval.
func poll(interval, limit time.Duration, holds func() bool) bool {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// letTimePass waits while nothing should happen.
func letTimePass(span time.Duration) { eventually(span, func() bool { return false }) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// queryValue runs a query that returns one value.
func queryValue[V any](s *system, db *pgxpool.Pool, query string, args ...any) V {
	s.Helper()
	rows, err := db.Query(s.Context(), query, args...)
	must(s.T, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[V])
	must(s.T, err)
	return value
}

const (
	publishedCount  = "SELECT count(*) FROM outbox_status WHERE status = 'published'"
	failedCount     = "SELECT count(*) FROM outbox_status WHERE status = 'failed'"
	inProgressCount = "SELECT count(*) FROM outbox_status WHERE status = 'in_progress'"
	haltedCount     = "SELECT count(*) FROM outbox_queue WHERE halted"
	pausedCount     = "SELECT count(*) FROM outbox_topics WHERE NOT resumed"

	// These are for notification-service.
	recordedCount = "SELECT count(*) FROM processed_messages"
	sentCount     = "SELECT count(*) FROM outbox_published"
	waitingCount  = "SELECT count(*) FROM outbox_queue"
)

// awaitCount waits until a query counts n rows.
func (s *system) awaitCount(db *pgxpool.Pool, n int, query string) {
	s.Helper()
	got := 0
	if !poll(20*time.Millisecond, awaitTimeout, func() bool { got = queryValue[int](s, db, query); return got == n }) {
		s.Fatalf("%s: got %d, want %d", query, got, n)
	}
}

// wantCount wants a query to count n rows within the limit, and reports whether it did.
func (s *system) wantCount(limit time.Duration, db *pgxpool.Pool, n int, query string) bool {
	s.Helper()
	got := 0
	if eventually(limit, func() bool { got = queryValue[int](s, db, query); return got == n }) {
		return true
	}
	s.Errorf("after %s: %s: got %d, want %d", limit, query, got, n)
	return false
}

// awaitPublished waits until every event is published that is in the outbox now.
func (s *system) awaitPublished() {
	s.Helper()
	newest := queryValue[int64](s, s.ordersDB, "SELECT coalesce(max(seq), 0) FROM outbox_status")
	published := func() bool {
		return queryValue[int](s, s.ordersDB, "SELECT count(*) FROM outbox_status WHERE seq <= $1 AND status <> 'published'", newest) == 0
	}
	if !poll(20*time.Millisecond, awaitTimeout, published) {
		s.Fatalf("not all events up to number %d are published", newest)
	}
}
