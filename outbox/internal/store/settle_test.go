package store

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestFenced runs each step with the token of a claim that has ended, and then with that of the
// current claim.
func TestFenced(t *testing.T) {
	t.Parallel()
	steps := map[string]struct {
		step func(f fixture, token uuid.UUID, ids []uuid.UUID) (int, error)
		want string
	}{
		"Release": {
			step: func(f fixture, token uuid.UUID, _ []uuid.UUID) (int, error) {
				held, err := f.store.Release(f.Context(), token)
				return map[bool]int{true: 1}[held], err
			},
			want: "pending",
		},
		"Reschedule": {
			step: func(f fixture, token uuid.UUID, ids []uuid.UUID) (int, error) {
				return f.store.Reschedule(f.Context(), token, []Failure{{ID: ids[0], Delay: time.Hour, Code: "refused"}})
			},
			want: "pending",
		},
		"Fail": {
			step: func(f fixture, token uuid.UUID, ids []uuid.UUID) (int, error) {
				_, held, err := f.store.Fail(f.Context(), token, Failure{ID: ids[0], Code: "refused"})
				return held, err
			},
			want: "failed",
		},
		"Overtake": {
			step: func(f fixture, token uuid.UUID, ids []uuid.UUID) (int, error) {
				err := f.store.Overtake(f.Context(), token, ids)
				return f.int("SELECT count(*) FROM outbox_discarded"), err
			},
			want: "overtaken",
		},
	}
	for name, s := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.appendMany(1)
			f.supersede(ids[0])
			stale := f.claim(10).Token
			f.endLeases()
			holder := f.claim(10).Token
			if held, err := s.step(f, stale, ids); held != 0 || err != nil {
				t.Errorf("with the token of a lost lease: changed %d, error %v", held, err)
			}
			f.wantStatus("in_progress", ids...)
			if held, err := s.step(f, holder, ids); held != 1 || err != nil {
				t.Errorf("with the token of the lease: changed %d, error %v", held, err)
			}
			f.wantStatus(s.want, ids...)
		})
	}
}

// TestAnOvertakenEventIsSettledUnsent, and the next one of its aggregate becomes due. An event that
// is not overtaken stays.
func TestAnOvertakenEventIsSettledUnsent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids, other := f.append("a", 1, 2, 3), f.appendMany(1)
	f.exec("UPDATE outbox_queue SET supersedes = true WHERE id = $1", ids[2])
	c := f.wantClaimed(ids[0], other[0])
	f.exec("UPDATE outbox_queue SET available_at = 'infinity' WHERE version > 1") // as a claim parks them
	must(t, f.store.Overtake(t.Context(), c.Token, []uuid.UUID{ids[0], other[0]}))
	must(t, f.store.Overtake(t.Context(), c.Token, []uuid.UUID{ids[0], other[0]})) // its answer was lost
	f.wantStatus("overtaken", ids[0])
	f.wantDue(0, ids[1])
	f.wantStatus("in_progress", other...)
	c = f.wantClaimed(ids[1])
	must(t, f.store.Overtake(t.Context(), c.Token, ids[1:2]))
	f.wantClaimed(ids[2])
}

func TestMarkPublishedNeedsNoLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	f.claim(10)
	f.endLeases()
	f.claim(10) // another relay holds them now
	f.mark(ids...)
	f.wantStatus("published", ids...)
}

// TestAConfirmIsAFact: an event that was discarded meanwhile is published, and one that is
// published stays so, whatever an older claim does.
func TestAConfirmIsAFact(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	f.fail(ids[0])
	must(t, f.decide(discardSQL, ids[0]))
	c := f.wantClaimed(ids[1])
	f.mark(ids...)
	f.mark(ids...)
	f.wantStatus("published", ids...)
	failure := Failure{ID: ids[1], Code: "refused"}
	if held, err := f.store.Reschedule(t.Context(), c.Token, []Failure{failure}); held != 0 || err != nil {
		t.Errorf("rescheduled %d published events, error %v", held, err)
	}
	if _, held, err := f.store.Fail(t.Context(), c.Token, failure); held != 0 || err != nil {
		t.Errorf("failed %d published events, error %v", held, err)
	}
	if held, err := f.store.Release(t.Context(), c.Token); !held || err != nil {
		t.Errorf("released: %t, error %v", held, err)
	}
	f.wantStatus("published", ids...)
	f.mark(uuid.New()) // of an event that is nowhere
	if n := f.int("SELECT count(*) FROM outbox_published"); n != 2 {
		t.Errorf("%d events are published, want 2", n)
	}
}

// TestMarkPublishedEndsTheClaim: if rows of claims stayed, all claims would read them.
func TestMarkPublishedEndsTheClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(2)
	f.drain()
	f.wantNone("SELECT count(*) FROM outbox_claims")
}

func TestReleaseMakesEventsDueAndCountsNoAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	if held, err := f.store.Release(t.Context(), f.claim(10).Token); !held || err != nil {
		t.Fatalf("held: %t, error %v", held, err)
	}
	if e := f.wantClaimed(ids...).Events[0]; e.RetryCount != 0 {
		t.Errorf("retry_count %d, want 0", e.RetryCount)
	}
}

func TestRescheduleDelaysEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	unrelated := f.appendMany(1)[0]
	c := f.claim(10)
	held, err := f.store.Reschedule(t.Context(), c.Token, []Failure{
		{ID: ids[0], Delay: time.Hour, Counts: true, Code: "refused", Reason: "a queue refused it"},
		{ID: unrelated, Delay: 2 * time.Hour, Code: "unroutable", Reason: "no queue"},
	})
	if held != 2 || err != nil {
		t.Fatalf("%d held, error %v", held, err)
	}
	_, err = f.store.Release(t.Context(), c.Token)
	must(t, err)
	f.wantClaimed() // one is delayed, and one is blocked
	f.wantDue(3600, ids[0])
	f.wantDue(7200, unrelated)
	if got := f.row(ids[0]); got.Status != "pending" || got.RetryCount != 1 || got.FailureCode != "refused" {
		t.Errorf("got %+v", got)
	}
	if got := f.row(unrelated); got.Status != "pending" || got.RetryCount != 0 || got.FailureCode != "unroutable" {
		t.Errorf("got %+v", got)
	}
}

func TestAnyFailureReasonCanBeStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, reason := range []string{
		strings.Repeat("ä", 4000), strings.Repeat("x", 1023) + "€", "nul \x00 inside", "bad \xff utf-8", `\u0000 "`, "",
	} {
		ids := f.appendMany(1)
		failure := Failure{ID: ids[0], Code: "refused", Reason: reason}
		if held, err := f.store.Reschedule(t.Context(), f.claim(10).Token, []Failure{failure}); held != 1 || err != nil {
			t.Errorf("Reschedule with %.10q…: %d held, error %v", reason, held, err)
		}
		f.endLeases()
		if at, held, err := f.store.Fail(t.Context(), f.claim(10).Token, failure); held != 1 || at.IsZero() || err != nil {
			t.Errorf("Fail with %.10q…: %d held, error %v", reason, held, err)
		}
		if got := read[string](f, "SELECT failure_reason FROM outbox_queue WHERE id = $1", ids[0])[0]; got != truncate(reason) {
			t.Errorf("stored %.10q… for %.10q…", got, reason)
		}
	}
}

// TestARepeatedRescheduleOrFailCountsOneAttempt: a relay repeats a statement if its answer was
// lost. A repeated Fail does not undo a replay, if the operator was faster.
func TestARepeatedRescheduleOrFailCountsOneAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	c := f.claim(10)
	for range 2 { // the first answer was lost
		_, err := f.store.Reschedule(t.Context(), c.Token, []Failure{{ID: ids[0], Delay: time.Hour, Counts: true, Code: "refused"}})
		must(t, err)
		for _, id := range ids[1:] {
			_, _, err = f.store.Fail(t.Context(), c.Token, Failure{ID: id, Counts: true, Code: "refused"})
			must(t, err)
		}
		must(t, f.decide(replaySQL, ids[2]))
	}
	for _, id := range ids[:2] {
		if got := f.row(id).RetryCount; got != 1 {
			t.Errorf("one attempt was counted %d times", got)
		}
	}
	f.wantStatus("pending", ids[2])
}

// TestOverlappingMarksDoNotDeadlock marks the same rows over two connections. One prefers to read
// them by an index, the other one in the order of the table, which is the opposite one. Both wait
// for a row in the middle that a third transaction has locked. If each of them had locked half of
// the rows that the other one needs, PostgreSQL would abort one of them (40P01).
func TestOverlappingMarksDoNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []uuid.UUID
	for i := range 3 {
		id := uuid.New()
		id[0] = byte(3 - i)
		f.exec(oneSQL, id, 1, uuid.NewString())
		ids = append(ids, id)
	}
	var ends []func()
	f.withRowLocked(ids[1], func() {
		for i, cost := range []string{"0.1", "1000000"} {
			store := f.with(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["random_page_cost"] = cost }).store
			ends = append(ends, f.startUntilBlocked(i+1, func() error { return store.MarkPublished(t.Context(), uuid.Nil, ids) }))
		}
	})
	for _, end := range ends {
		end()
	}
}
