package outbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
)

// runJanitorUntil runs the janitor until a query counts no rows.
func (f fixture) runJanitorUntil(count string, retention time.Duration) {
	f.Helper()
	ctx, end := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.store.RunJanitor(ctx, retention) }()
	ask := time.NewTicker(10 * time.Millisecond)
	defer ask.Stop()
	deadline := time.Now().Add(time.Minute)
	left := 1
	for ; left > 0 && time.Now().Before(deadline); <-ask.C {
		f.read(&left, count)
	}
	end()
	if err := <-ended; err != nil || left > 0 {
		f.Errorf("%d left, error %v", left, err)
	}
}

// TestTheJanitorRepairsStrandedEvents that a manual change of the table has left.
func TestTheJanitorRepairsStrandedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stranded := f.append(uuid.New(), 1)
	f.exec("UPDATE outbox_queue SET available_at = 'infinity'")
	f.runJanitorUntil(strandedSQL, time.Hour)
	f.wantDue(0, stranded...)
}

// TestTheJanitorPrunesBeyondEventsThatStay: several pages of old failed events come before the old
// published ones.
func TestTheJanitorPrunesBeyondEventsThatStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.publishedDaysAgo(9, 3000)
	f.exec("UPDATE outbox_status SET status = 'failed', failed_at = published_at, published_at = NULL")
	f.publishedDaysAgo(8, 3000)
	f.runJanitorUntil("SELECT count(*) FROM outbox_status WHERE status = 'published'", 7*24*time.Hour)
}
