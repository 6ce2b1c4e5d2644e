package operate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// decide records a finished decision of each list of items as a batch.
func (f fixture) decide(by operate.By, batches ...[]string) (rows []uuid.UUID) {
	f.Helper()
	for _, items := range batches {
		row, err := f.log.Begin(f.Context(), by, operate.Replay, items)
		must(f, err)
		must(f, f.log.Finish(f.Context(), row, len(items)))
		rows = append(rows, row)
	}
	return rows
}

// TestADecisionHasAllItsBatches. An unfinished batch is visible: a process may die between Begin and
// Finish.
func TestADecisionHasAllItsBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	by := operate.NewDecision("ann", operate.CLI, "--topic order.created")
	f.decide(by, []string{"a", "b"})
	row, err := f.log.Begin(t.Context(), by, operate.Replay, []string{"c", "d"})
	must(t, err)
	f.decide(operate.NewDecision("ben", operate.CLI, "--all"), []string{"b", "c", "e"}, []string{"f"})
	d, err := f.log.Get(t.Context(), by.Decision)
	if err != nil || d.By != by || d.Action != operate.Replay || d.Chosen != 4 || d.Done != 2 || d.Batches != 2 || d.Unfinished != 1 || d.FinishedAt != nil {
		t.Errorf("before its end: %+v, error %v", d, err)
	}
	for _, done := range []int{1, 2} { // the first end holds
		must(t, f.log.Finish(t.Context(), row, done))
		d, err := f.log.Get(t.Context(), by.Decision)
		if err != nil || d.Chosen != 4 || d.Done != 3 || d.Unfinished != 0 || d.FinishedAt == nil || d.FinishedAt.Before(d.At) || time.Since(d.At).Abs() > time.Hour {
			t.Errorf("after its end: %+v, error %v", d, err)
		}
	}
	if _, err := f.log.Get(t.Context(), uuid.New()); !errors.Is(err, operate.ErrNoDecision) {
		t.Errorf("an unknown decision: error %v", err)
	}
	// Who decided about an item, the newest first.
	found, err := f.log.Of(t.Context(), []string{"b", "e", "x"}, 10)
	if err != nil || len(found) != 2 || found[0].Operator != "ben" || !slices.Equal(found[0].Items, []string{"b", "e"}) ||
		found[1].Operator != "ann" || !slices.Equal(found[1].Items, []string{"b"}) {
		t.Errorf("found %+v, error %v", found, err)
	}
	if newest, err := f.log.Of(t.Context(), []string{"b"}, 1); err != nil || len(newest) != 1 || newest[0].Operator != "ben" {
		t.Errorf("the newest is %+v, error %v", newest, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.log.Begin(ended, by, operate.Republish, []string{"c"}); err == nil {
		t.Error("no error although the database is away")
	}
}

// TestADecisionWithoutItsFactsIsRefused: the error names the field, and nothing is decided.
func TestADecisionWithoutItsFactsIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for field, wrong := range map[string][]operate.By{
		"By.Operator": {operate.NewDecision("", operate.CLI, operate.ByIDs)},
		"By.Filter":   {operate.NewDecision("ann", operate.CLI, "")},
		"By.Via": {
			operate.NewDecision("ann", "", operate.ByIDs),
			operate.NewDecision("ann", operate.Via(strings.Repeat("x", 21)), operate.ByIDs),
		},
	} {
		for _, by := range wrong {
			_, err := f.log.Begin(t.Context(), by, operate.Discard, []string{"a"})
			if err == nil || !strings.Contains(err.Error(), field) || f.count("operator_decisions") != 0 {
				t.Errorf("%+v: error %v", by, err)
			}
		}
	}
}

// TestAnyTextIsStorable: message ids come from any publisher, and names from the machine.
func TestAnyTextIsStorable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hostile := []string{"\xff\x00", "<script>", "' OR 1=1", "", strings.Repeat("x", 255), "\u202egnp", `\u0000"`, "\u2028"}
	by := operate.NewDecision(strings.Repeat("é", 150)+"\x00", "a-word-of-20-letters", strings.Repeat("ü", 5000))
	f.decide(by, hostile)
	d, err := f.log.Get(t.Context(), by.Decision)
	if err != nil || d.Via != by.Via || d.Operator != strings.Repeat("é", 100) || d.Filter != strings.Repeat("ü", 2048) {
		t.Fatalf("%+v, error %v", d, err)
	}
	for _, item := range hostile {
		if found, err := f.log.Of(t.Context(), []string{item}, 10); err != nil || len(found) != 1 || len(found[0].Items) != 1 {
			t.Errorf("%q: found %+v, error %v", item, found, err)
		}
	}
}

func TestDecisionsArePagedTheNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var want []uuid.UUID
	for range 3 {
		by := ann()
		f.decide(by, []string{"a"}, []string{"b"})
		want = append([]uuid.UUID{by.Decision}, want...)
	}
	before := uuid.Nil
	for _, page := range [][]uuid.UUID{want[:2], want[2:], nil} {
		found, err := f.log.List(t.Context(), before, 2)
		must(t, err)
		var got []uuid.UUID
		for _, d := range found {
			got, before = append(got, d.Decision), d.Decision
		}
		if !slices.Equal(got, page) {
			t.Errorf("%v, want %v", got, page)
		}
	}
}

func TestPruneDeletesOldDecisionsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 5 {
		f.decide(ann(), []string{"a"})
	}
	f.exec("UPDATE operator_decisions SET at = now() - interval '25 hours'")
	f.decide(operate.NewDecision("ben", operate.CLI, operate.ByIDs), []string{"a"})
	f.exec("UPDATE operator_decisions SET at = now() - interval '23 hours' WHERE operator = 'ben'")
	for _, want := range []int{2, 2, 1, 0} {
		if n, err := f.log.Prune(t.Context(), 24*time.Hour, 2); err != nil || n != want {
			t.Errorf("pruned %d, error %v, want %d", n, err, want)
		}
	}
	if f.count("operator_decisions") != 1 {
		t.Error("a young decision is gone")
	}
	// Run prunes at once, and ends without an error.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := f.log.Run(ctx, time.Hour); err != nil || f.count("operator_decisions") != 0 {
		t.Errorf("error %v", err)
	}
}
