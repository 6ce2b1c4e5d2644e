package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// TestRescheduleReleaseAndFailAreFenced runs each of them with the token of a claim that has ended,
// and then with that of the current claim.
func TestRescheduleReleaseAndFailAreFenced(t *testing.T) {
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
				return f.store.Reschedule(f.Context(), token, []outbox.Failure{{ID: ids[0], Delay: time.Hour, Code: "refused"}})
			},
			want: "pending",
		},
		"Fail": {
			step: func(f fixture, token uuid.UUID, ids []uuid.UUID) (int, error) {
				_, held, err := f.store.Fail(f.Context(), token, outbox.Failure{ID: ids[0], Code: "refused"})
				return held, err
			},
			want: "failed",
		},
	}
	for name, s := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.appendMany(1)
			stale := f.claim(10).Token
			f.endLeases()
			holder := f.claim(10).Token

			if held, err := s.step(f, stale, ids); held != 0 || err != nil {
				t.Errorf("with the token of a lost lease: changed %d, error %v", held, err)
			}
			if got := f.row(ids[0]).Status; got != "in_progress" {
				t.Errorf("the stale holder made it %s", got)
			}
			if held, err := s.step(f, holder, ids); held != 1 || err != nil {
				t.Errorf("with the token of the lease: changed %d, error %v", held, err)
			}
			if got := f.row(ids[0]).Status; got != s.want {
				t.Errorf("%s, want %s", got, s.want)
			}
		})
	}
}

func TestAPublishedEventStaysPublished(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	token := f.claim(10).Token
	if err := f.store.MarkPublished(t.Context(), uuid.Nil, ids); err != nil {
		t.Fatal(err)
	}
	failure := outbox.Failure{ID: ids[0], Code: "refused"}
	if held, err := f.store.Reschedule(t.Context(), token, []outbox.Failure{failure}); held != 0 || err != nil {
		t.Errorf("rescheduled %d published events, error %v", held, err)
	}
	if _, held, err := f.store.Fail(t.Context(), token, failure); held != 0 || err != nil {
		t.Errorf("failed %d published events, error %v", held, err)
	}
	if held, err := f.store.Release(t.Context(), token); !held || err != nil {
		t.Errorf("released: %t, error %v, want the claim released", held, err)
	}
	if got := f.row(ids[0]).Status; got != "published" {
		t.Errorf("%s, want published", got)
	}
}

// TestARepeatedRescheduleOrFailCountsOneAttempt: a relay repeats a statement if its answer was
// lost.
func TestARepeatedRescheduleOrFailCountsOneAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	c := f.claim(10)
	for range 2 { // the first answer was lost
		_, err := f.store.Reschedule(t.Context(), c.Token, []outbox.Failure{{ID: ids[0], Delay: time.Hour, Counts: true, Code: "refused"}})
		must(t, err)
		_, _, err = f.store.Fail(t.Context(), c.Token, outbox.Failure{ID: ids[1], Counts: true, Code: "refused"})
		must(t, err)
	}
	for _, id := range ids {
		if got := f.row(id).RetryCount; got != 1 {
			t.Errorf("one attempt was counted %d times", got)
		}
	}
}

// TestARepeatedFailDoesNotUndoAReplay, if the operator was faster than the repeat.
func TestARepeatedFailDoesNotUndoAReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	c := f.claim(10)
	fail := func() {
		_, _, err := f.store.Fail(t.Context(), c.Token, outbox.Failure{ID: ids[0], Code: "refused"})
		must(t, err)
	}
	fail()
	must(t, f.replay(ids...))
	fail() // again, because the first answer was lost
	if got := f.row(ids[0]).Status; got == "failed" {
		t.Errorf("%s, want that the replay stays", got)
	}
}
