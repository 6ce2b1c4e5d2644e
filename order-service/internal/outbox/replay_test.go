package outbox_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// rowsAsJSON returns all columns of these events, as text.
func (f fixture) rowsAsJSON(ids ...uuid.UUID) (rows []string) {
	f.Helper()
	f.read(&rows, "SELECT to_jsonb(o)::text FROM outbox_status o WHERE id IN ? ORDER BY id", ids)
	return rows
}

func TestP7AReplayedEventIsPublishedBeforeTheOnesItHeldBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendFailed(1, 2)
	if held := idsOf(f.claim(10)); len(held) != 0 {
		t.Fatalf("claimed %v behind a failed event", held)
	}
	replayed, err := outbox.NewOperator(f.db).Replay(t.Context(), ann, ids[:1])
	if err != nil || len(replayed) != 1 || replayed[0].ID != ids[0] || replayed[0].Status != "pending" {
		t.Fatalf("replayed %+v, error %v", replayed, err)
	}
	if got, want := f.row(ids[0]), (row{Status: "pending"}); got.DueInSeconds > 0 || got.Status != want.Status || got.RetryCount != 0 || got.FailureCode != "" {
		t.Errorf("got %+v, want %+v, due", got, want)
	}
	if first := idsOf(f.claim(10)); !slices.Equal(first, ids[:1]) {
		t.Fatalf("claimed %v, want %v", first, ids[:1])
	}
	if err := f.store.MarkPublished(t.Context(), uuid.Nil, ids[:1]); err != nil {
		t.Fatal(err)
	}
	if then := idsOf(f.claim(10)); !slices.Equal(then, ids[1:]) {
		t.Errorf("then claimed %v, want %v", then, ids[1:])
	}
}

func TestP7ADiscardedEventHoldsNothingBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendFailed(1, 2)
	discarded, err := outbox.NewOperator(f.db).Discard(t.Context(), ann, ids[:1])
	if err != nil || len(discarded) != 1 || discarded[0].Status != "discarded" {
		t.Fatalf("discarded %+v, error %v", discarded, err)
	}
	if e := discarded[0]; e.FailedAt == nil || e.FailureReason == nil || *e.FailureReason != "a queue is full" {
		t.Errorf("the reason or the time of the failure is lost: %+v", e)
	}
	if freed := idsOf(f.claim(10)); !slices.Equal(freed, ids[1:]) {
		t.Errorf("claimed %v, want %v", freed, ids[1:])
	}
}

// TestOnlyFailedEventsAreReplayedOrDiscarded tries both in every other state. Above all, a
// published event must stay published.
func TestOnlyFailedEventsAreReplayedOrDiscarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(4)
	for i, set := range []string{
		"retry_count = 3",
		"status = 'in_progress', lease_token = id, locked_by = 'x'",
		"status = 'published', published_at = now()",
		"status = 'discarded', failed_at = now()",
	} {
		f.exec("UPDATE outbox_status SET "+set+" WHERE id = ?", ids[i])
	}
	before := f.rowsAsJSON(ids...)
	operator := outbox.NewOperator(f.db)
	for name, decide := range map[string]func() ([]outbox.Entry, error){
		"Replay":  func() ([]outbox.Entry, error) { return operator.Replay(t.Context(), ann, append(ids, uuid.New())) },
		"Discard": func() ([]outbox.Entry, error) { return operator.Discard(t.Context(), ann, append(ids, uuid.New())) },
	} {
		if decided, err := decide(); len(decided) != 0 || err != nil {
			t.Errorf("%s returned %v, error %v", name, decided, err)
		}
		if after := f.rowsAsJSON(ids...); !slices.Equal(after, before) {
			t.Errorf("%s changed\n%v to\n%v", name, before, after)
		}
	}
}

// TestTwoOperatorsReplayEachEventOnce gives both the same events, in opposite orders.
func TestTwoOperatorsReplayEachEventOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(200)
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	for range 10 {
		f.exec("UPDATE outbox_status SET status = 'failed', failed_at = now()")
		var (
			mu        sync.Mutex
			replayed  []uuid.UUID
			operators sync.WaitGroup
		)
		for _, batch := range [][]uuid.UUID{ids, reversed} {
			operators.Go(func() {
				entries, err := outbox.NewOperator(f.db).Replay(t.Context(), ann, batch)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				replayed = append(replayed, entryIDs(entries)...)
			})
		}
		operators.Wait()
		slices.SortFunc(replayed, compareIDs)
		want := slices.SortedFunc(slices.Values(ids), compareIDs)
		if !slices.Equal(replayed, want) {
			t.Fatalf("%d replayed, want each of %d once", len(replayed), len(want))
		}
	}
}
