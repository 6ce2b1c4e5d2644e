package outbox_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// TestTheWayHasWhatHappenedToEachEvent of one order, in each state.
func TestTheWayHasWhatHappenedToEachEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	aggregate := uuid.New()
	ids := f.append(aggregate, 1, 2, 3, 4, 5, 6)
	f.exec("UPDATE outbox_status SET status = 'published', published_at = now(), retry_count = 2 WHERE id = ?", ids[0])
	f.exec("UPDATE outbox_status SET status = 'discarded', failed_at = now(), failure_code = 'too_large', failure_reason = 'long' WHERE id = ?", ids[1])
	f.exec(`UPDATE outbox_status SET status = 'in_progress', lease_token = id, locked_by = 'worker 1',
		available_at = now() + interval '1 minute' WHERE id = ?`, ids[2])
	f.exec("UPDATE outbox_status SET status = 'failed', failed_at = now(), failure_code = 'refused', failure_reason = 'full', retry_count = 20 WHERE id = ?", ids[3])
	f.exec("UPDATE outbox_queue SET available_at = now() + interval '1 hour', retry_count = 1, failure_code = 'refused', failure_reason = 'full' WHERE id = ?", ids[4])
	f.exec("UPDATE outbox_queue SET available_at = 'infinity' WHERE id = ?", ids[5])
	steps, err := outbox.NewOperator(f.db).Way(t.Context(), "order", aggregate)
	must(t, err)
	if len(steps) != len(ids) {
		t.Fatalf("%d steps", len(steps))
	}
	type row struct {
		Status, Code, Reason, Worker                string
		Attempts                                    int
		Due, Claimed, Failed, Discarded, IsPublised bool
	}
	for i, want := range []row{
		{Status: "published", Attempts: 2, IsPublised: true},
		{Status: "discarded", Code: "too_large", Reason: "long", Failed: true, Discarded: true},
		{Status: "in_progress", Worker: "worker 1", Due: true, Claimed: true},
		{Status: "failed", Code: "refused", Reason: "full", Attempts: 20, Failed: true},
		{Status: "pending", Code: "refused", Reason: "full", Attempts: 1, Due: true},
		{Status: "pending"},
	} {
		s := steps[i]
		got := row{
			s.Status, value(s.FailureCode), value(s.FailureReason), value(s.Worker), s.RetryCount,
			s.DueAt != nil, s.ClaimedUntil != nil, s.FailedAt != nil, s.DiscardedAt != nil, s.PublishedAt != nil,
		}
		if got != want || s.ID != ids[i] || s.AggregateVersion != i+1 || s.CreatedAt.IsZero() {
			t.Errorf("version %d: %+v, want %+v", i+1, got, want)
		}
	}
	if none, err := outbox.NewOperator(f.db).Way(t.Context(), "order", uuid.New()); len(none) != 0 || err != nil {
		t.Errorf("an unknown order has %v, error %v", none, err)
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestAnOrderIsFoundByEventAndByTrace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	aggregate := uuid.New()
	id := f.append(aggregate, 1)[0]
	f.exec("UPDATE outbox_events SET traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'")
	f.appendMany(3)
	operator := outbox.NewOperator(f.db)
	for name, locate := range map[string]func() (outbox.Position, error){
		"id": func() (outbox.Position, error) { return operator.Locate(t.Context(), id) },
		"trace": func() (outbox.Position, error) {
			return operator.LocateTrace(t.Context(), "0AF7651916CD43DD8448EB211C80319C", 1000)
		},
	} {
		if p, err := locate(); err != nil || p != (outbox.Position{AggregateType: "order", AggregateID: aggregate, AggregateVersion: 1}) {
			t.Errorf("by %s: %+v, error %v", name, p, err)
		}
	}
	for name, locate := range map[string]func() (outbox.Position, error){
		"id":    func() (outbox.Position, error) { return operator.Locate(t.Context(), aggregate) },
		"trace": func() (outbox.Position, error) { return operator.LocateTrace(t.Context(), "%", 1000) },
	} {
		if p, err := locate(); !errors.Is(err, outbox.ErrNoEvent) {
			t.Errorf("by an unknown %s: %+v, error %v", name, p, err)
		}
	}
}

// TestTheSearchForATraceReadsTheNewestEventsOnly however many there are.
func TestTheSearchForATraceReadsTheNewestEventsOnly(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	var costs []int
	for _, events := range []int{3000, 30_000} {
		f := newFixture(t)
		f.disableAutovacuum()
		f.failMany(events)
		f.exec("UPDATE outbox_events SET traceparent = ? WHERE id = '00000000-0001-aaaa-aaaa-aaaaaaaaaaaa'", "00-"+trace+"-b7ad6b7169203331-01")
		costs = append(costs, f.blocksRead(func(db *postgres.DB) error {
			_, err := outbox.NewOperator(db).LocateTrace(t.Context(), trace, 1000)
			if !errors.Is(err, outbox.ErrNoEvent) {
				t.Errorf("found an event that is older than those that are searched, error %v", err)
			}
			return nil
		}))
	}
	wantBoundedGrowth(t, "blocks read to search 1,000 of 3,000 and of 30,000", 1.5, costs)
}
