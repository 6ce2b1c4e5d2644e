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

// wantMetrics compares all metrics except the age.
func (f fixture) wantMetrics(backlog, pending, inProgress, failed string) {
	f.Helper()
	want := `
# HELP outbox_backlog Events that are not published yet; above 200,000 an estimate. Every replica reports the same table: take the max, not the sum.
# TYPE outbox_backlog gauge
outbox_backlog ` + backlog + `
# HELP outbox_events Unfinished events, by status. Every replica reports the same table: take the max, not the sum.
# TYPE outbox_events gauge
outbox_events{status="failed"} ` + failed + `
outbox_events{status="in_progress"} ` + inProgress + `
outbox_events{status="pending"} ` + pending + `
`
	if err := testutil.CollectAndCompare(f.store.Metrics(), strings.NewReader(want), "outbox_backlog", "outbox_events"); err != nil {
		f.Error(err)
	}
}

func TestBacklogCountsUnpublishedEventsByStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.wantMetrics("0", "0", "0", "0")
	order := uuid.New()
	f.append(order, 1, 2, 3)
	f.appendMany(2)
	f.wantMetrics("5", "5", "0", "0")
	c := f.claim(1)
	f.wantMetrics("5", "4", "1", "0")
	ids := idsOf(c)
	if err := f.store.MarkPublished(f.Context(), uuid.Nil, ids); err != nil {
		t.Fatal(err)
	}
	f.wantMetrics("4", "4", "0", "0")
	c = f.claim(1)
	if _, _, err := f.store.Fail(f.Context(), c.Token, outbox.Failure{ID: c.Events[0].ID, Code: "refused"}); err != nil {
		t.Fatal(err)
	}
	f.wantMetrics("4", "3", "0", "1") // the event behind the failed one is parked, and pending
	c = f.claim(10)
	later := []outbox.Failure{}
	for _, e := range c.Events {
		later = append(later, outbox.Failure{ID: e.ID, Delay: time.Hour, Code: "unroutable"})
	}
	if _, err := f.store.Reschedule(f.Context(), c.Token, later); err != nil {
		t.Fatal(err)
	}
	f.wantMetrics("4", "3", "0", "1") // delayed events are pending
	backlog, err := f.store.Backlog(f.Context())
	if err != nil || backlog.OldestDue != 0 || backlog.Unroutable != 2 {
		t.Errorf("%+v, error %v, want that no event is due and 2 are unroutable", backlog, err)
	}
}

func TestBacklogReportsTheAgeOfTheOldestDueEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("UPDATE outbox_status SET available_at = now() - interval '1 hour' WHERE id = ?", f.append(uuid.New(), 1)[0])
	f.appendMany(1)
	backlog, err := f.store.Backlog(t.Context())
	if err != nil || backlog.OldestDue < 3600 || backlog.OldestDue > 3700 {
		t.Errorf("oldest due %v s, error %v, want an hour", backlog.OldestDue, err)
	}
}

// TestBacklogCountsEventsOfADeadRelayAsDue: the claim's row stays while no other relay runs,
// although its lease has ended.
func TestBacklogCountsEventsOfADeadRelayAsDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(1)
	f.claim(10)
	f.exec("UPDATE outbox_queue SET available_at = now() - interval '1 hour'")
	f.endLeases()
	got, err := f.store.Backlog(t.Context())
	if must(t, err); got.Pending != 1 || got.OldestDue < 3500 {
		t.Errorf("%+v, want 1 pending event, due for an hour", got)
	}
}

// TestTheCostOfBacklogIsBounded sets the limit of the counts to a hundredth of the real one. Above
// it, the numbers are estimates that must be about right.
func TestTheCostOfBacklogIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.disableAutovacuum()
	f.store.SetCountLimit(2000)
	inProgress := len(idsOf(f.appendAndClaim(100)))
	var costs []int
	for _, more := range []int{5000, 45_000} {
		f.exec(appendManySQL, "order.created", more)
		f.vacuum()
		costs = append(costs, f.blocksRead(func(db *postgres.DB) error {
			s := outbox.NewStore(db)
			s.SetCountLimit(2000)
			_, err := s.Backlog(t.Context())
			return err
		}))
	}
	wantBoundedGrowth(t, "blocks read for 5,000 and for 50,000 events", 1.5, costs)
	f.exec("UPDATE outbox_status SET available_at = now() - interval '1 hour' WHERE seq = 200")
	f.exec(appendManySQL, "order.created", 10_000) // the estimates do not know these yet
	backlog, err := f.store.Backlog(t.Context())
	if err != nil || backlog.Pending < 50_000 || backlog.Pending > 70_000 {
		t.Errorf("%+v, error %v, want about 60,000 pending", backlog, err)
	}
	if backlog.InProgress != inProgress || backlog.OldestDue < 3600 || backlog.OldestDue > 3700 {
		t.Errorf("%+v, want %d in progress and an hour exactly", backlog, inProgress)
	}
}

// appendAndClaim commits n events and claims them.
func (f fixture) appendAndClaim(n int) outbox.Claim {
	f.Helper()
	f.exec(appendManySQL, "order.created", n)
	return f.claim(n)
}

// TestAScrapeWithoutTheDatabaseReportsNothing: an old number would be wrong.
func TestAScrapeWithoutTheDatabaseReportsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.store.Metrics())
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series, error %v", n, err)
	}
}
