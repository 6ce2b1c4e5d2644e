package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// wantMetrics compares all but the age.
func (b bench) wantMetrics(backlog, pending, inProgress, failed string) {
	b.Helper()
	want := `
# HELP outbox_backlog Events that are not yet published, whatever they wait for; an estimate beyond 200,000. The table's number, the same on every replica: take the max, not the sum.
# TYPE outbox_backlog gauge
outbox_backlog ` + backlog + `
# HELP outbox_events Unfinished events, by status. The table's numbers, the same on every replica: take the max, not the sum.
# TYPE outbox_events gauge
outbox_events{status="failed"} ` + failed + `
outbox_events{status="in_progress"} ` + inProgress + `
outbox_events{status="pending"} ` + pending + `
`
	if err := testutil.CollectAndCompare(b.store.Metrics(), strings.NewReader(want), "outbox_backlog", "outbox_events"); err != nil {
		b.Error(err)
	}
}

func TestTheBacklogCountsWhateverIsNotPublished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.wantMetrics("0", "0", "0", "0")
	order := uuid.New()
	b.append(order, 1, 2, 3)
	b.appendMany(2)
	b.wantMetrics("5", "5", "0", "0")
	c := b.claim(1)
	b.wantMetrics("5", "4", "1", "0")
	ids := idsOf(c)
	if err := b.store.MarkPublished(b.Context(), ids); err != nil {
		t.Fatal(err)
	}
	b.wantMetrics("4", "4", "0", "0")
	c = b.claim(1)
	if _, _, err := b.store.Fail(b.Context(), c.Token, outbox.Setback{ID: c.Events[0].ID, Code: "refused"}); err != nil {
		t.Fatal(err)
	}
	b.wantMetrics("4", "3", "0", "1") // with what waits behind it, parked
	c = b.claim(10)
	later := []outbox.Setback{}
	for _, e := range c.Events {
		later = append(later, outbox.Setback{ID: e.ID, Delay: time.Hour, Code: "unroutable"})
	}
	if _, err := b.store.Reschedule(b.Context(), c.Token, later); err != nil {
		t.Fatal(err)
	}
	b.wantMetrics("4", "3", "0", "1") // with what is backed off
	backlog, err := b.store.Backlog(b.Context())
	if err != nil || backlog.OldestDue != 0 || backlog.Unroutable != 2 {
		t.Errorf("%+v, error %v: nothing is due, and 2 wait for a route", backlog, err)
	}
}

func TestTheOldestDueEventTellsItsAge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("UPDATE outbox_events SET available_at = now() - interval '1 hour' WHERE id = ?", b.append(uuid.New(), 1)[0])
	b.appendMany(1)
	backlog, err := b.store.Backlog(t.Context())
	if err != nil || backlog.OldestDue < 3600 || backlog.OldestDue > 3700 {
		t.Errorf("oldest due %v s, error %v, want an hour", backlog.OldestDue, err)
	}
}

// TestALargeBacklogCostsNoMoreThanTheBound and is about as large as it is: the bound is a
// hundredth of the real one.
func TestALargeBacklogCostsNoMoreThanTheBound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.quiet()
	b.store.CountExactly(2000)
	inProgress := len(idsOf(b.claimOf(100)))
	var costs []int
	for _, more := range []int{5000, 45_000} {
		b.exec(manySQL, "order.created", more)
		b.vacuum()
		costs = append(costs, b.blocks(func(db *postgres.DB) error {
			s := outbox.NewStore(db)
			s.CountExactly(2000)
			_, err := s.Backlog(t.Context())
			return err
		}))
	}
	wantFlat(t, "blocks read for 5,000 and for 50,000 events", 1.5, costs)
	b.exec("UPDATE outbox_events SET available_at = now() - interval '1 hour' WHERE seq = 200")
	b.exec(manySQL, "order.created", 10_000) // since the last vacuum
	backlog, err := b.store.Backlog(t.Context())
	if err != nil || backlog.Pending < 50_000 || backlog.Pending > 70_000 {
		t.Errorf("%+v, error %v, want about 60,000 pending", backlog, err)
	}
	if backlog.InProgress != inProgress || backlog.OldestDue < 3600 || backlog.OldestDue > 3700 {
		t.Errorf("%+v, want %d in progress and an hour exactly", backlog, inProgress)
	}
}

// claimOf claims n new events.
func (b bench) claimOf(n int) outbox.Claim {
	b.Helper()
	b.exec(manySQL, "order.created", n)
	return b.claim(n)
}

// TestAScrapeWhileTheDatabaseIsAwayGivesNothing: an old number would be a lie.
func TestAScrapeWhileTheDatabaseIsAwayGivesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.store.Metrics())
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series, error %v", n, err)
	}
}
