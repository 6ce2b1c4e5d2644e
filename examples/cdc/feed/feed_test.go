package feed

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pglogrepl"

	"example.com/transactional-outbox/outbox/internal/store"
)

// events returns n events of n orders.
func events(n int) (all []store.Event) {
	for range n {
		all = append(all, store.Event{ID: uuid.New(), Aggregate: "order", AggregateID: uuid.NewString()})
	}
	return all
}

func wantPosition(t *testing.T, f *Feed, want pglogrepl.LSN) {
	t.Helper()
	if got := f.Position(); got != want {
		t.Errorf("position %s, want %s", got, want)
	}
}

// finish marks events done, as a settlement does.
func (f *Feed) finish(ids ...uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.setDone(id)
	}
	f.trim()
}

func TestThePositionStopsBeforeTheFirstUnfinishedEvent(t *testing.T) {
	t.Parallel()
	f := New(nil, time.Hour)
	first, second, third := events(1), events(2), events(1)
	f.Reached(50)
	f.Add(first, 100)
	wantPosition(t, f, 50)
	f.Add(second, 200)
	f.Add(third, 300)
	f.Reached(400)
	f.finish(second[0].ID, third[0].ID)
	wantPosition(t, f, 50)
	f.finish(first[0].ID)
	wantPosition(t, f, 100) // the second transaction has an event that is not finished
	f.finish(second[1].ID)
	wantPosition(t, f, 400)
}

func TestATransactionWithoutEventsMovesThePosition(t *testing.T) {
	t.Parallel()
	f := New(nil, time.Hour)
	f.Add(nil, 100)
	wantPosition(t, f, 100)
}

func TestAFullFeedHasRoomAgainAfterEventsAreFinished(t *testing.T) {
	t.Parallel()
	f := New(nil, time.Hour)
	all := events(maxEvents)
	f.Add(all, 100)
	if !f.Full() {
		t.Fatal("not full")
	}
	f.finish(all[0].ID)
	select {
	case <-f.Space():
	default:
		t.Error("Space does not receive")
	}
	if f.Full() {
		t.Error("still full")
	}
}

func TestWhatIsDroppedIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := New(nil, time.Hour)
	f.Add(events(3), 100)
	if n := f.Drop(true); n != 3 {
		t.Errorf("dropped %d, want 3", n)
	}
	wantPosition(t, f, 100)
	f.Add(events(3), 200)
	wantPosition(t, f, 200)
	f.Drop(false)
	f.Add(events(3), 300)
	wantPosition(t, f, 200)
}

// TestABatchHasOneEventOfEachOrder picks without a database.
func TestABatchHasOneEventOfEachOrder(t *testing.T) {
	t.Parallel()
	f := New(nil, time.Hour)
	all := events(3)
	all[1].AggregateID = all[0].AggregateID
	f.Add(all, 100)
	picked := f.pick(10)
	if len(picked) != 2 || picked[0].ID != all[0].ID || picked[1].ID != all[2].ID {
		t.Errorf("picked %v", picked)
	}
	f.finish(all[0].ID)
	if picked = f.pick(10); len(picked) != 2 || picked[0].ID != all[1].ID {
		t.Errorf("picked %v", picked)
	}
}

// TestEventsWithoutAnAggregateDoNotWait: they have no order.
func TestEventsWithoutAnAggregateDoNotWait(t *testing.T) {
	t.Parallel()
	f := New(nil, time.Hour)
	f.Add([]store.Event{{ID: uuid.New()}, {ID: uuid.New()}}, 100)
	if picked := f.pick(10); len(picked) != 2 {
		t.Errorf("picked %v", picked)
	}
}

// TestAnEventThatTheJanitorMovedIsFinishedOnce: it is in the log twice.
func TestAnEventThatTheJanitorMovedIsFinishedOnce(t *testing.T) {
	t.Parallel()
	f := New(nil, time.Hour)
	all := events(2)
	f.Add(all, 100)
	f.Add(append(events(1), all...), 200)
	if picked := f.pick(10); len(picked) != 3 {
		t.Errorf("picked %v", picked)
	}
	f.finish(all[0].ID, all[1].ID)
	wantPosition(t, f, 100)
	for _, left := range f.pick(10) {
		f.finish(left.ID)
	}
	wantPosition(t, f, 200)
	if left := f.pick(10); len(left) > 0 {
		t.Errorf("still to claim: %v", left)
	}
}

// TestTheRestOfAClaimCanBeClaimedAgain: one worker has several claims at the same time.
func TestTheRestOfAClaimCanBeClaimedAgain(t *testing.T) {
	t.Parallel()
	f := New(nil, time.Hour)
	all := events(2)
	f.Add(all, 100)
	one, other := store.Claim{Token: uuid.New(), Events: all[:1]}, store.Claim{Token: uuid.New(), Events: all[1:]}
	for _, claim := range []store.Claim{one, other} {
		f.note(claim.Events, claim, nil, 10)
	}
	if picked := f.pick(10); len(picked) > 0 {
		t.Errorf("picked %v, and both are claimed", picked)
	}
	f.release(other.Token)
	if picked := f.pick(10); len(picked) != 1 || picked[0].ID != all[1].ID {
		t.Errorf("picked %v, want the event of the claim that has ended", picked)
	}
}
