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

// locked runs fn while another transaction holds the event's row.
func (b bench) locked(id uuid.UUID, fn func()) {
	b.Helper()
	err := b.db.InTx(b.Context(), func(tx *postgres.Tx) error {
		if err := tx.Gorm(b.Context()).Exec("SELECT 1 FROM outbox_events WHERE id = ? FOR UPDATE", id).Error; err != nil {
			return err
		}
		fn()
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func TestMarkPublishedNeedsNoLease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(2)
	b.claim(10)
	b.endLeases()
	b.claim(10) // somebody else holds them now
	if err := b.store.MarkPublished(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := b.row(id).Status; got != "published" {
			t.Errorf("%s, want published", got)
		}
	}
}

// TestStepsBackAreFenced lets each step back run under a token that has lost its
// lease, and under one that holds it.
func TestStepsBackAreFenced(t *testing.T) {
	t.Parallel()
	steps := map[string]struct {
		step func(b bench, token uuid.UUID, ids []uuid.UUID) (int, error)
		want string
	}{
		"Release": {
			step: func(b bench, token uuid.UUID, ids []uuid.UUID) (int, error) {
				return b.store.Release(b.Context(), token, ids)
			},
			want: "pending",
		},
		"Reschedule": {
			step: func(b bench, token uuid.UUID, ids []uuid.UUID) (int, error) {
				return b.store.Reschedule(b.Context(), token, []outbox.Setback{{ID: ids[0], Delay: time.Hour, Code: "refused"}})
			},
			want: "pending",
		},
		"Fail": {
			step: func(b bench, token uuid.UUID, ids []uuid.UUID) (int, error) {
				_, held, err := b.store.Fail(b.Context(), token, outbox.Setback{ID: ids[0], Code: "refused"})
				return held, err
			},
			want: "failed",
		},
	}
	for name, s := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ids := b.appendMany(1)
			stale := b.claim(10).Token
			b.endLeases()
			holder := b.claim(10).Token

			if held, err := s.step(b, stale, ids); held != 0 || err != nil {
				t.Errorf("under a lost lease: %d held, error %v", held, err)
			}
			if got := b.row(ids[0]).Status; got != "in_progress" {
				t.Errorf("a stale holder made it %s", got)
			}
			if held, err := s.step(b, holder, ids); held != 1 || err != nil {
				t.Errorf("under the lease: %d held, error %v", held, err)
			}
			if got := b.row(ids[0]).Status; got != s.want {
				t.Errorf("%s, want %s", got, s.want)
			}
		})
	}
}

func TestAPublishedEventNeverGoesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(1)
	token := b.claim(10).Token
	if err := b.store.MarkPublished(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	if held, err := b.store.Release(t.Context(), token, ids); held != 0 || err != nil {
		t.Errorf("released %d published events, error %v", held, err)
	}
	if got := b.row(ids[0]).Status; got != "published" {
		t.Errorf("%s, want published", got)
	}
}

func TestReleaseSpendsNothingAndIsDueAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(2)
	c := b.claim(10)
	if held, err := b.store.Release(t.Context(), c.Token, ids); held != 2 || err != nil {
		t.Fatalf("%d held, error %v", held, err)
	}
	if got := b.row(ids[0]).RetryCount; got != 0 {
		t.Errorf("retry_count %d, want 0", got)
	}
	if again := idsOf(b.claim(10)); !slices.Equal(again, ids) {
		t.Errorf("claimed %v, want %v", again, ids)
	}
}

func TestRescheduleBacksOffAndMovesLaterEventsBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.append(uuid.New(), 1, 2, 3)
	bystander := b.appendMany(1)[0]
	c := b.claim(10)
	held, err := b.store.Reschedule(t.Context(), c.Token, []outbox.Setback{
		{ID: ids[0], Delay: time.Hour, Spends: true, Code: "refused", Reason: "a queue refused it"},
		{ID: bystander, Delay: 2 * time.Hour, Code: "unroutable", Reason: "no queue"},
	})
	if held != 2 || err != nil {
		t.Fatalf("%d held, error %v", held, err)
	}
	for id, want := range map[uuid.UUID]row{
		ids[0]:    {Status: "pending", RetryCount: 1, FailureCode: "refused", DueInSeconds: 3600},
		ids[1]:    {Status: "pending", DueInSeconds: 3600},
		ids[2]:    {Status: "pending", DueInSeconds: 3600},
		bystander: {Status: "pending", FailureCode: "unroutable", DueInSeconds: 7200},
	} {
		got := b.row(id)
		if gap := want.DueInSeconds - got.DueInSeconds; gap < 0 || gap > 60 {
			t.Errorf("due in %.0f s, want %.0f", got.DueInSeconds, want.DueInSeconds)
		}
		got.DueInSeconds = want.DueInSeconds
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestAnEventAppendedBehindABackedOffOneIsDueWithIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := uuid.New()
	first := b.append(order, 1)[0]
	c := b.claim(10)
	setback := outbox.Setback{ID: first, Delay: time.Hour, Spends: true, Code: "refused"}
	if held, err := b.store.Reschedule(t.Context(), c.Token, []outbox.Setback{setback}); held != 1 || err != nil {
		t.Fatalf("%d held, error %v", held, err)
	}
	if due := b.row(b.append(order, 2)[0]).DueInSeconds; due < 3500 {
		t.Errorf("the second version is due in %.0f s, want 3600", due)
	}
	if due := b.row(b.append(uuid.New(), 1)[0]).DueInSeconds; due > 0 {
		t.Errorf("the event of another order is due in %.0f s, want at once", due)
	}
}

func TestAReasonNeverMakesItsUpdateFail(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		strings.Repeat("ä", 4000), strings.Repeat("x", 1023) + "€", "nul \x00 inside", "bad \xff utf-8", "",
	} {
		b := newBench(t)
		ids := b.appendMany(1)
		c := b.claim(10)
		setback := outbox.Setback{ID: ids[0], Code: "refused", Reason: reason}
		if held, err := b.store.Reschedule(t.Context(), c.Token, []outbox.Setback{setback}); held != 1 || err != nil {
			t.Errorf("Reschedule with %.10q…: %d held, error %v", reason, held, err)
		}
		c = b.claim(10)
		if at, held, err := b.store.Fail(t.Context(), c.Token, setback); held != 1 || at.IsZero() || err != nil {
			t.Errorf("Fail with %.10q…: %d held, error %v", reason, held, err)
		}
	}
}

// TestHoldersOfOverlappingBatchesDoNotDeadlock marks the same rows by two plans, one of
// which comes upon them from below and one from above. When they meet at the row that a
// third one holds, without the lock order each has half of what the other wants, and
// PostgreSQL kills one (40P01).
func TestHoldersOfOverlappingBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendDescending(3)
	byID, asTheyLie := b.storeWith("enable_seqscan=off&enable_bitmapscan=off"), b.storeWith("enable_indexscan=off&enable_bitmapscan=off")
	var ends []func()
	b.locked(ids[1], func() {
		for i, store := range []*outbox.Store{byID, asTheyLie} {
			ends = append(ends, b.meanwhile(i+1, func() error { return store.MarkPublished(t.Context(), ids) }))
		}
	})
	for _, end := range ends {
		end()
	}
}

// appendDescending commits n events that lie in the table from the highest id to the
// lowest.
func (b bench) appendDescending(n int) (ids []uuid.UUID) {
	b.Helper()
	var events []outbox.Message
	for i := range n {
		m := message(uuid.New(), 1)
		m.ID[0] = byte(n - i)
		events, ids = append(events, m), append(ids, m.ID)
	}
	b.commit(events)
	return ids
}

// storeWith is the outbox seen through connections with these parameters.
func (b bench) storeWith(parameters string) *outbox.Store {
	b.Helper()
	db, err := postgres.Open(b.Context(), b.url+"&"+parameters, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	return outbox.NewStore(db)
}
