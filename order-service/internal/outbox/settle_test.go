package outbox_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

func TestMarkPublishedNeedsNoLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	f.claim(10)
	f.endLeases()
	f.claim(10) // another relay holds them now
	if err := f.store.MarkPublished(t.Context(), uuid.Nil, ids); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := f.row(id).Status; got != "published" {
			t.Errorf("%s, want published", got)
		}
	}
}

// TestMarkPublishedEndsTheClaim: if rows of claims stayed, all claims would read them.
func TestMarkPublishedEndsTheClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(2)
	c := f.claim(10)
	must(t, f.store.MarkPublished(t.Context(), c.Token, idsOf(c)))
	f.wantNone("SELECT count(*) FROM outbox_claims")
}

func TestReleaseMakesEventsDueAndCountsNoAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	c := f.claim(10)
	if held, err := f.store.Release(t.Context(), c.Token); !held || err != nil {
		t.Fatalf("held: %t, error %v", held, err)
	}
	if got := f.row(ids[0]).RetryCount; got != 0 {
		t.Errorf("retry_count %d, want 0", got)
	}
	if again := idsOf(f.claim(10)); !slices.Equal(again, ids) {
		t.Errorf("claimed %v, want %v", again, ids)
	}
}

func TestRescheduleDelaysEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append(uuid.New(), 1, 2)
	unrelated := f.appendMany(1)[0]
	c := f.claim(10)
	held, err := f.store.Reschedule(t.Context(), c.Token, []outbox.Failure{
		{ID: ids[0], Delay: time.Hour, Counts: true, Code: "refused", Reason: "a queue refused it"},
		{ID: unrelated, Delay: 2 * time.Hour, Code: "unroutable", Reason: "no queue"},
	})
	if held != 2 || err != nil {
		t.Fatalf("%d held, error %v", held, err)
	}
	if held, err := f.store.Release(t.Context(), c.Token); !held || err != nil {
		t.Fatalf("held: %t, error %v", held, err)
	}
	if again := f.claim(10); len(again.Events) != 0 {
		t.Errorf("claimed %v, but one is delayed, and one is blocked", idsOf(again))
	}
	for id, want := range map[uuid.UUID]row{
		ids[0]:    {Status: "pending", RetryCount: 1, FailureCode: "refused", DueInSeconds: 3600},
		unrelated: {Status: "pending", FailureCode: "unroutable", DueInSeconds: 7200},
	} {
		got := f.row(id)
		if gap := want.DueInSeconds - got.DueInSeconds; gap < 0 || gap > 60 {
			t.Errorf("due in %.0f s, want %.0f", got.DueInSeconds, want.DueInSeconds)
		}
		got.DueInSeconds = want.DueInSeconds
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestAnyFailureReasonCanBeStored(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		strings.Repeat("ä", 4000), strings.Repeat("x", 1023) + "€", "nul \x00 inside", "bad \xff utf-8", "",
	} {
		f := newFixture(t)
		ids := f.appendMany(1)
		c := f.claim(10)
		failure := outbox.Failure{ID: ids[0], Code: "refused", Reason: reason}
		if held, err := f.store.Reschedule(t.Context(), c.Token, []outbox.Failure{failure}); held != 1 || err != nil {
			t.Errorf("Reschedule with %.10q…: %d held, error %v", reason, held, err)
		}
		c = f.claimAgain(c)
		if at, held, err := f.store.Fail(t.Context(), c.Token, failure); held != 1 || at.IsZero() || err != nil {
			t.Errorf("Fail with %.10q…: %d held, error %v", reason, held, err)
		}
	}
}

// claimAgain releases a claim and makes another one.
func (f fixture) claimAgain(c outbox.Claim) outbox.Claim {
	f.Helper()
	if _, err := f.store.Release(f.Context(), c.Token); err != nil {
		f.Fatal(err)
	}
	return f.claim(10)
}

// TestOverlappingMarksDoNotDeadlock marks the same rows over two connections. One prefers to read
// them by an index, the other one in the order of the table, which is the opposite one. Both wait
// for a row in the middle that a third transaction has locked. If each of them had locked half of
// the rows that the other one needs, PostgreSQL would abort one of them (40P01).
func TestOverlappingMarksDoNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendDescending(3)
	byID, byPosition := f.storeWithParameters("random_page_cost=0.1"), f.storeWithParameters("random_page_cost=1000000")
	var ends []func()
	f.withRowLocked(ids[1], func() {
		for i, store := range []*outbox.Store{byID, byPosition} {
			ends = append(ends, f.startUntilBlocked(i+1, func() error { return store.MarkPublished(t.Context(), uuid.Nil, ids) }))
		}
	})
	for _, end := range ends {
		end()
	}
}

// appendDescending commits n events, which are in the table from the highest id to the lowest.
func (f fixture) appendDescending(n int) (ids []uuid.UUID) {
	f.Helper()
	var events []outbox.Message
	for i := range n {
		m := message(uuid.New(), 1)
		m.ID[0] = byte(n - i)
		events, ids = append(events, m), append(ids, m.ID)
	}
	f.commit(events)
	return ids
}

// storeWithParameters opens the outbox with these connection parameters.
func (f fixture) storeWithParameters(parameters string) *outbox.Store {
	f.Helper()
	db, err := postgres.Open(f.Context(), f.url+"&"+parameters, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(db.Close)
	return outbox.NewStore(db)
}
