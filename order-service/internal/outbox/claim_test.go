package outbox_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

func TestAClaimReturnsCompleteEventsInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(50)
	// The update moves rows in the table, so a plan without a sort would return another order.
	f.exec("UPDATE outbox_status SET traceparent = 't' WHERE seq % 3 = 0")
	c := f.claim(50)
	if !slices.Equal(idsOf(c), ids) {
		t.Errorf("claimed\n%v, want\n%v", idsOf(c), ids)
	}
	e := c.Events[0]
	if e.EventKey != "order.created" || e.Payload != `{"a": 1}` || e.CreatedAt.IsZero() || e.Age < 0 {
		t.Errorf("claimed %+v", e)
	}
}

// TestP7AClaimPassesOverEventsBehindAnUnsettledOne puts the older event of an order into each
// state. The later one may be claimed only if the older one is settled.
func TestP7AClaimPassesOverEventsBehindAnUnsettledOne(t *testing.T) {
	t.Parallel()
	states := map[string]struct {
		set  string
		free bool
	}{
		"pending, delayed": {set: "available_at = now() + interval '1 hour'"},
		"in progress":      {set: "status = 'in_progress', lease_token = id, locked_by = 'x', available_at = now() + interval '1 hour'"},
		"failed":           {set: "status = 'failed', failed_at = now()"},
		"published":        {set: "status = 'published', published_at = now()", free: true},
		"discarded":        {set: "status = 'discarded', failed_at = now()", free: true},
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.append(uuid.New(), 1, 2)
			f.exec("UPDATE outbox_status SET "+state.set+" WHERE id = ?", ids[0])
			if claimed := len(f.claim(10).Events) == 1; claimed != state.free {
				t.Errorf("the later event was claimed: %t, want %t", claimed, state.free)
			}
		})
	}
}

// TestAClaimDoesNotWaitForRowLocks: an operator may lock an event for long, and a transaction that
// has appended an event may stay open.
func TestAClaimDoesNotWaitForRowLocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.New()
	ids := f.append(order, 1, 2)
	must(t, f.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		must(t, outbox.Append(t.Context(), tx, message(order, 3)))
		must(t, tx.Gorm(t.Context()).Exec("SELECT 1 FROM outbox_queue WHERE id = ? FOR UPDATE", ids[1]).Error)
		if got := idsOf(f.claim(10)); !slices.Equal(got, ids[:1]) {
			t.Errorf("claimed %v, want %v", got, ids[:1])
		}
		return f.store.MarkPublished(t.Context(), uuid.Nil, ids[:1])
	}))
}

// TestLockedRowsDoNotHideOtherOrders: MarkPublished of a batch waits for one locked row, so the
// other rows of the batch are locked too. The next events of their orders can neither be claimed
// nor parked, and they are as many as a claim looks at first.
func TestLockedRowsDoNotHideOtherOrders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var orders []uuid.UUID
	var firsts []uuid.UUID
	for range 101 {
		order := uuid.New()
		orders = append(orders, order)
		firsts = append(firsts, f.append(order, 1)...)
	}
	c := f.claim(1000)
	if len(c.Events) != 101 {
		t.Fatal(len(c.Events))
	}
	last := slices.MaxFunc(firsts, func(a, c uuid.UUID) int { return bytes.Compare(a[:], c[:]) })
	for _, order := range orders {
		f.append(order, 2)
	}
	unrelated := f.appendMany(1)
	var marked func()
	f.withRowLocked(last, func() {
		marked = f.startUntilBlocked(1, func() error { return f.store.MarkPublished(t.Context(), c.Token, firsts) })
		got, err := f.store.Claim(t.Context(), "x", 10, lease)
		if must(t, err); len(got.Events) != 1 {
			t.Errorf("claimed %d, more: %t, want only %v", len(got.Events), got.More, unrelated)
		}
	})
	marked()
}

// TestAClaimReportsThatMoreEventsMayBeDue: after those that the claim looked at there may be events
// that can be claimed. So the relay claims again at once.
func TestAClaimReportsThatMoreEventsMayBeDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.New()
	f.fail(f.append(order, 1)...)
	f.appendLater(order, 250, "now()")
	unrelated := f.appendMany(1)
	for _, want := range []bool{true, true, false} {
		c, err := f.store.Claim(t.Context(), "test", 1, lease)
		if must(t, err); c.More != want || len(c.Events) > 0 == want {
			t.Errorf("claimed %d events, more: %t, want %t", len(c.Events), c.More, want)
		}
		if !want && !slices.Equal(idsOf(c), unrelated) {
			t.Errorf("claimed %v, want %v", idsOf(c), unrelated)
		}
	}
}

// TestCachedPlansUseIndexesWhenTheQueueGrows: the server keeps the plans that it made while the
// tables were empty.
func TestCachedPlansUseIndexesWhenTheQueueGrows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.disableAutovacuum()
	var costs []int
	f.blocksRead(func(db *postgres.DB) error {
		s := outbox.NewStore(db)
		pass := func(events int) {
			before := f.totalBlocks(db)
			for range 8 { // from the sixth time on the server uses a cached plan
				c, err := s.Claim(t.Context(), "test", 1, lease)
				if must(t, err); len(c.Events) != 1 {
					t.Fatalf("claimed %d, want 1", len(c.Events))
				}
				must(t, s.MarkPublished(t.Context(), c.Token, idsOf(c)))
			}
			costs = append(costs, f.totalBlocks(db)-before)
			f.exec(appendManySQL, "order.created", events)
		}
		f.appendMany(8)
		pass(8)
		pass(50_000)
		pass(0)
		return nil
	})
	wantBoundedGrowth(t, "blocks read by eight passes, in an empty outbox and with 50,000 events", 3, costs[1:])
}
