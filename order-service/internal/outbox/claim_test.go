package outbox_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

const lease = time.Minute

func TestClaimersNeverShareAnEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := b.appendMany(10)

	var (
		mu       sync.Mutex
		claimed  []uuid.UUID
		claimers sync.WaitGroup
	)
	for range 3 {
		claimers.Go(func() {
			for {
				c, err := b.store.Claim(t.Context(), "test", 2, lease)
				if err != nil {
					t.Error(err)
				}
				if len(c.Events) == 0 {
					return
				}
				mu.Lock()
				claimed = append(claimed, idsOf(c)...)
				mu.Unlock()
			}
		})
	}
	claimers.Wait()
	slices.SortFunc(claimed, compareIDs)
	slices.SortFunc(want, compareIDs)
	if !slices.Equal(claimed, want) {
		t.Errorf("claimed %v, want each of %v once", claimed, want)
	}
}

func TestAClaimPassesByWhatAnotherHoldsLocked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(2)
	b.locked(ids[0], func() {
		if got := idsOf(b.claim(10)); !slices.Equal(got, ids[1:]) {
			t.Errorf("claimed %v, want %v", got, ids[1:])
		}
	})
}

func TestP12AnEventOfACrashedClaimIsClaimedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(1)
	first := b.claim(10)
	if again := b.claim(10); len(again.Events) != 0 {
		t.Fatalf("claimed %v under somebody else's lease", idsOf(again))
	}
	b.endLeases()
	second := b.claim(10)
	if !slices.Equal(idsOf(second), ids) {
		t.Errorf("after the lease ended, claimed %v, want %v", idsOf(second), ids)
	}
	if first.Token == second.Token {
		t.Error("two claims have one token")
	}
}

func TestAClaimIsInOrderOfCommitAndHasAllOfAnEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(50)
	// The planner may take the rows in any order; the claim must not.
	b.exec("UPDATE outbox_events SET traceparent = 't' WHERE seq % 3 = 0")
	c := b.claim(50)
	if !slices.Equal(idsOf(c), ids) {
		t.Errorf("claimed\n%v, want\n%v", idsOf(c), ids)
	}
	e := c.Events[0]
	if e.EventKey != "order.created" || e.Payload != `{"a": 1}` || e.CreatedAt.IsZero() || e.Age < 0 {
		t.Errorf("claimed %+v", e)
	}
}

// TestP7AClaimPassesOverEventsBehindAnUnsettledOne puts the older event into each
// state, and wants the younger one only behind a settled one.
func TestP7AClaimPassesOverEventsBehindAnUnsettledOne(t *testing.T) {
	t.Parallel()
	states := map[string]struct {
		set  string
		free bool
	}{
		"pending, backed off": {set: "available_at = now() + interval '1 hour'"},
		"in progress":         {set: "status = 'in_progress', lease_token = id, locked_by = 'x', available_at = now() + interval '1 hour'"},
		"failed":              {set: "status = 'failed', failed_at = now()"},
		"published":           {set: "status = 'published', published_at = now()", free: true},
		"discarded":           {set: "status = 'discarded', failed_at = now()", free: true},
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ids := b.append(uuid.New(), 1, 2)
			b.exec("UPDATE outbox_events SET "+state.set+" WHERE id = ?", ids[0])
			if claimed := len(b.claim(10).Events) == 1; claimed != state.free {
				t.Errorf("the younger event was claimed: %t, want %t", claimed, state.free)
			}
		})
	}
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
