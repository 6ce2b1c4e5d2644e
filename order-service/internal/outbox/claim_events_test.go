package outbox_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// events are what a caller of ClaimEvents knows.
func events(ids ...uuid.UUID) (known []outbox.Claimed) {
	for _, id := range ids {
		known = append(known, outbox.Claimed{ID: id, EventKey: "from the caller", CreatedAt: time.Now()})
	}
	return known
}

func (f fixture) claimEvents(ids ...uuid.UUID) (outbox.Claim, []uuid.UUID) {
	f.Helper()
	claim, unseen, err := f.store.ClaimEvents(f.Context(), "test", events(ids...), lease)
	if err != nil {
		f.Fatal(err)
	}
	return claim, unseen
}

func TestClaimEventsLeasesTheEventsThatAreGiven(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	f.exec("UPDATE outbox_status SET retry_count = 2, failure_code = 'unroutable' WHERE id = ?", ids[2])
	claim, unseen := f.claimEvents(ids[2], ids[0])
	if got := idsOf(claim); !slices.Equal(got, []uuid.UUID{ids[2], ids[0]}) || len(unseen) > 0 {
		t.Fatalf("claimed %v, unseen %v", got, unseen)
	}
	e := claim.Events[0]
	if e.RetryCount != 2 || !e.Unroutable || e.EventKey != "from the caller" || e.Age > 60 {
		t.Errorf("claimed %+v", e)
	}
	if got := idsOf(f.claim(10)); !slices.Equal(got, ids[1:2]) {
		t.Errorf("an ordinary claim got %v, want the event that was not given", got)
	}
	must(t, f.store.MarkPublished(t.Context(), claim.Token, idsOf(claim)))
	if n := f.unsettled(); n != 1 {
		t.Errorf("%d events are unsettled, want 1", n)
	}
}

// TestClaimEventsTakesOnlyWhatAClaimWouldTake puts an event into each other state.
func TestClaimEventsTakesOnlyWhatAClaimWouldTake(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{
		"due later":           "available_at = now() + interval '1 hour'",
		"parked":              "available_at = 'infinity'",
		"claimed by somebody": "status = 'in_progress', lease_token = id, locked_by = 'x', available_at = now() + interval '1 hour'",
		"failed":              "status = 'failed', failed_at = now()",
		"published":           "status = 'published', published_at = now()",
		"discarded":           "status = 'discarded', failed_at = now()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.append(uuid.New(), 1)
			f.exec("UPDATE outbox_status SET "+state+" WHERE id = ?", ids[0])
			claim, unseen := f.claimEvents(ids...)
			if len(claim.Events) > 0 || len(unseen) > 0 {
				t.Errorf("claimed %v, unseen %v", idsOf(claim), unseen)
			}
			f.wantNone("SELECT count(*) FROM outbox_claims WHERE worker = 'test'")
		})
	}
}

func TestP7ClaimEventsTakesTheOldestOfAnOrderOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append(uuid.New(), 1, 2, 3)
	for i := range ids {
		claim, _ := f.claimEvents(ids...)
		if got := idsOf(claim); !slices.Equal(got, ids[i:i+1]) {
			t.Fatalf("claimed %v, want version %d only", got, i+1)
		}
		must(t, f.store.MarkPublished(t.Context(), claim.Token, idsOf(claim)))
	}
}

// TestClaimEventsReportsACommitThatIsNotVisible: the log of the database has it a moment earlier.
func TestClaimEventsReportsACommitThatIsNotVisible(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := message(uuid.New(), 1)
	must(t, f.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		must(t, outbox.Append(t.Context(), tx, m))
		must(t, tx.Gorm(t.Context()).Exec("SELECT 1").Error) // sends it
		if claim, unseen := f.claimEvents(m.ID); len(claim.Events) > 0 || !slices.Equal(unseen, []uuid.UUID{m.ID}) {
			t.Errorf("claimed %v, unseen %v", idsOf(claim), unseen)
		}
		return nil
	}))
	if claim, unseen := f.claimEvents(m.ID); len(claim.Events) != 1 || len(unseen) > 0 {
		t.Errorf("after the commit: claimed %v, unseen %v", idsOf(claim), unseen)
	}
}

// TestBothWaysToClaimExcludeEachOther runs them against each other.
func TestBothWaysToClaimExcludeEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(200)
	var claimers sync.WaitGroup
	claims := make(chan outbox.Claim, 2*len(ids))
	claimers.Go(func() {
		for chunk := range slices.Chunk(ids, 10) {
			claim, _, err := f.store.ClaimEvents(t.Context(), "by id", events(chunk...), lease)
			if err != nil {
				t.Error(err)
			}
			claims <- claim
		}
	})
	claimers.Go(func() {
		for range len(ids) / 10 {
			claim, err := f.store.Claim(t.Context(), "by time", 10, lease)
			if err != nil {
				t.Error(err)
			}
			claims <- claim
		}
	})
	claimers.Wait()
	close(claims)
	times := map[uuid.UUID]int{}
	for claim := range claims {
		for _, e := range claim.Events {
			times[e.ID]++
		}
	}
	for _, id := range ids {
		if times[id] != 1 {
			t.Errorf("event %s was claimed %d times", id, times[id])
		}
	}
}
