package outbox_test

import (
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

func TestTotalsCountFinishedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.wantTotals(outbox.Totals{})
	f.appendMany(3)
	f.wantTotals(outbox.Totals{Appended: 3})
	c := f.claim(1)
	if err := f.store.MarkPublished(t.Context(), uuid.Nil, idsOf(c)); err != nil {
		t.Fatal(err)
	}
	f.exec("DELETE FROM outbox_events WHERE id IN (SELECT id FROM outbox_published)") // pruning
	c = f.claim(1)
	if _, _, err := f.store.Fail(t.Context(), c.Token, outbox.Failure{ID: c.Events[0].ID, Code: "refused"}); err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.NewOperator(f.db).Discard(t.Context(), ann, idsOf(c)); err != nil {
		t.Fatal(err)
	}
	f.wantTotals(outbox.Totals{Appended: 3, Discarded: 1})
}

func (f fixture) wantTotals(want outbox.Totals) {
	f.Helper()
	if got, err := f.store.Totals(f.Context(), 10); err != nil || got != want {
		f.Errorf("got %+v, want %+v, error %v", got, want, err)
	}
}

func TestABacklogAboveTheLimitIsEstimated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(50)
	for limit, exact := range map[int]bool{51: true, 10: false} {
		b, err := f.store.BacklogUpTo(t.Context(), limit)
		if err != nil || b.Pending < limit && !exact || exact && b.Pending != 50 {
			t.Errorf("up to %d: %d pending, error %v", limit, b.Pending, err)
		}
	}
}
