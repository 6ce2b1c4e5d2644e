package audit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/postgres"
)

func TestADecisionHasAllItsBatches(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		by := audit.New("ann", audit.Page, "--event-key order.created")
		f.record(by, []string{"a", "b"}, nil, []string{"c"})
		f.record(audit.New("ben", audit.CLI, audit.ByIDs), []string{"c"})
		d, err := f.Get(f.Context(), by.Decision)
		if err != nil || d.By != by || d.Action != audit.Replay || d.Chosen != 3 || d.Done != 3 || d.Batches != 2 || d.Unfinished != 0 {
			f.Errorf("%+v, error %v", d, err)
		}
		if d.FinishedAt == nil || d.FinishedAt.Before(d.At) || time.Since(d.At).Abs() > time.Hour {
			f.Errorf("from %s to %v", d.At, d.FinishedAt)
		}
		first, err := f.Batches(f.Context(), by.Decision, uuid.Nil, 1)
		if err != nil || len(first) != 1 || !slices.Equal(first[0].Items, []string{"a", "b"}) || first[0].By != by || *first[0].Done != 2 {
			f.Fatalf("the first batch is %+v, error %v", first, err)
		}
		rest, err := f.Batches(f.Context(), by.Decision, first[0].ID, 10)
		if err != nil || len(rest) != 1 || !slices.Equal(rest[0].Items, []string{"c"}) {
			f.Errorf("the other batches are %+v, error %v", rest, err)
		}
		if _, err := f.Get(f.Context(), uuid.New()); !errors.Is(err, audit.ErrNoDecision) {
			f.Errorf("an unknown decision: error %v", err)
		}
	})
}

// TestARolledBackChangeLeavesNoDecision: the row is in the transaction of the change.
func TestARolledBackChangeLeavesNoDecision(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		failed := errors.New("the change failed")
		err := f.db.InTx(f.Context(), func(tx *postgres.Tx) error {
			return errors.Join(audit.Record(tx, audit.New("ann", audit.CLI, audit.ByIDs), audit.Discard, []string{"a"}), failed)
		})
		if n := f.count(); !errors.Is(err, failed) || n != 0 {
			f.Errorf("%d rows, error %v", n, err)
		}
	})
}

// TestWithoutItsRowNothingIsDecided: a row that the table refuses fails the transaction.
func TestWithoutItsRowNothingIsDecided(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		for name, by := range map[string]audit.By{
			"nobody":         audit.New("", audit.CLI, audit.ByIDs),
			"no filter":      audit.New("ann", audit.CLI, ""),
			"an unknown way": audit.New("ann", "letter", audit.ByIDs),
		} {
			err := f.db.InTx(f.Context(), func(tx *postgres.Tx) error {
				return audit.Record(tx, by, audit.Discard, []string{"a"})
			})
			if err == nil || f.count() != 0 {
				f.Errorf("%s: error %v, %d rows", name, err, f.count())
			}
		}
	})
}

// TestAnyTextIsStorable: message ids come from any publisher, and names from the machine.
func TestAnyTextIsStorable(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		hostile := []string{"\xff\x00", "<script>", "' OR 1=1", "", strings.Repeat("x", 255), "\u202egnp"}
		by := audit.New(strings.Repeat("é", 150)+"\x00", audit.CLI, strings.Repeat("ü", 5000))
		f.record(by, hostile)
		d, err := f.Get(f.Context(), by.Decision)
		if err != nil || d.Operator != strings.Repeat("é", 100) || d.Filter != strings.Repeat("ü", 2048) {
			f.Fatalf("%+v, error %v", d, err)
		}
		for _, item := range hostile {
			if found, err := f.Of(f.Context(), []string{item}, 10); err != nil || len(found) != 1 || len(found[0].Items) != 1 {
				f.Errorf("%q: found %+v, error %v", item, found, err)
			}
		}
	})
}

func TestListPagesTheNewestFirst(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		var want []uuid.UUID
		for range 5 {
			by := audit.New("ann", audit.CLI, audit.ByIDs)
			f.record(by, []string{"a"}, []string{"b"})
			want = append([]uuid.UUID{by.Decision}, want...)
		}
		var got []uuid.UUID
		for before := uuid.Nil; ; before = got[len(got)-1] {
			page := f.list(before, 2)
			for _, d := range page {
				got = append(got, d.Decision)
			}
			if len(page) < 2 {
				break
			}
		}
		if !slices.Equal(got, want) {
			f.Errorf("%v, want %v", got, want)
		}
	})
}

func TestOfFindsWhoDecidedAboutAnItem(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		first, second := audit.New("ann", audit.CLI, audit.ByIDs), audit.New("ben", audit.Page, "--all")
		f.record(first, []string{"a", "b"})
		f.record(second, []string{"b", "c", "d"}, []string{"e"})
		found, err := f.Of(f.Context(), []string{"b", "d", "x"}, 10)
		if err != nil || len(found) != 2 {
			f.Fatalf("found %+v, error %v", found, err)
		}
		if found[0].Operator != "ben" || !slices.Equal(found[0].Items, []string{"b", "d"}) || found[1].Operator != "ann" || !slices.Equal(found[1].Items, []string{"b"}) {
			f.Errorf("found %+v", found)
		}
		if newest, err := f.Of(f.Context(), []string{"b"}, 1); err != nil || len(newest) != 1 || newest[0].Operator != "ben" {
			f.Errorf("the newest is %+v, error %v", newest, err)
		}
	})
}

// TestAnUnfinishedBatchIsVisible: a process may die between Begin and Finish.
func TestAnUnfinishedBatchIsVisible(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		by := audit.New("ann", audit.CLI, "--all")
		id, err := f.Begin(f.Context(), by, audit.Republish, []string{"a", "b"})
		if err != nil {
			f.Fatal(err)
		}
		if d, err := f.Get(f.Context(), by.Decision); err != nil || d.FinishedAt != nil || d.Unfinished != 1 || d.Chosen != 2 || d.Done != 0 {
			f.Errorf("before its end: %+v, error %v", d, err)
		}
		for _, done := range []int{1, 2} { // the first end holds
			if err := f.Finish(f.Context(), id, done); err != nil {
				f.Fatal(err)
			}
			if d, err := f.Get(f.Context(), by.Decision); err != nil || d.FinishedAt == nil || d.Unfinished != 0 || d.Done != 1 {
				f.Errorf("after its end: %+v, error %v", d, err)
			}
		}
		if _, err := f.Begin(ended(f.T), by, audit.Republish, []string{"c"}); err == nil {
			f.Error("no error although the database is away")
		}
	})
}
