package operate_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

type decide = func(*operate.Operator, context.Context, operate.By, []uuid.UUID) (operate.Result, error)

// inEachDecision runs a test with Replay and with Discard.
func inEachDecision(t *testing.T, test func(fixture, operate.Action, decide)) {
	for action, decide := range map[operate.Action]decide{
		operate.Replay: (*operate.Operator).Replay, operate.Discard: (*operate.Operator).Discard,
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			test(newFixture(t), action, decide)
		})
	}
}

// TestOnlyFailedEventsAreReplayedOrDiscarded tries both in every other state, and says why. Above
// all, a published event must stay published.
func TestOnlyFailedEventsAreReplayedOrDiscarded(t *testing.T) {
	t.Parallel()
	inEachDecision(t, func(f fixture, action operate.Action, decide decide) {
		ids := f.appendMany(5)
		f.claim(ids[1])
		f.publish("now()", ids[2])
		f.fail(ids[3])
		f.finish(false, ids[3])
		f.finish(true, ids[4])
		unknown := uuid.Max
		before := f.rows(ids...)
		want := []operate.Refusal{
			{ids[0], "is pending, not failed", false},
			{ids[1], "is in_progress, not failed", false},
			{ids[2], "is published, not failed", false},
			{ids[3], "is discarded, not failed", false},
			{ids[4], f.superseded(ids[4]), false},
			{unknown, "is not in the outbox", false},
		}
		chosen := append(slices.Clone(ids), unknown, ids[0])
		for name, try := range map[string]func() (operate.Result, error){
			"it":    func() (operate.Result, error) { return decide(f.operator, f.Context(), ann(), chosen) },
			"a try": func() (operate.Result, error) { return f.operator.DryRun(f.Context(), action, chosen) },
		} {
			if r, err := try(); err != nil || len(r.Changed) != 0 || !slices.Equal(r.Refused, want) {
				f.Errorf("%s: %+v, error %v", name, r, err)
			}
		}
		if after := f.rows(ids...); !slices.Equal(after, before) {
			f.Errorf("it changed\n%v to\n%v", before, after)
		}
	})
}

// TestWhatCannotBeSentIsNotReplayed: an event that a claim has superseded, and one without its
// payload. This one can be discarded. A newer event that is delayed supersedes nothing yet.
func TestWhatCannotBeSentIsNotReplayed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	f.fail(ids...)
	const supersedeSQL = `INSERT INTO outbox_queue (id, seq, version, aggregate, aggregate_id, topic, bytes, supersedes, available_at)
		SELECT gen_random_uuid(), 0, version + 1, aggregate, aggregate_id, topic, 0, true, now() + $2 * interval '1s' FROM outbox_queue WHERE id = $1`
	f.exec(supersedeSQL, ids[0], 0)
	f.exec(supersedeSQL, ids[2], 3600)
	f.due()
	f.exec("DELETE FROM outbox_events WHERE id = $1", ids[1])
	want := []operate.Refusal{
		{ids[0], f.superseded(ids[0]), false},
		{ids[1], "cannot be sent: its payload is gone from the log", true},
	}
	for _, try := range []func() (operate.Result, error){ // the dry run comes first: it changes nothing
		func() (operate.Result, error) { return f.operator.DryRun(t.Context(), operate.Replay, ids) },
		func() (operate.Result, error) { return f.operator.Replay(t.Context(), ann(), ids) },
	} {
		if r, err := try(); err != nil || !slices.Equal(r.Refused, want) || !slices.Equal(operate.IDsOf(r.Changed), ids[2:]) {
			t.Errorf("%+v, error %v", r, err)
		}
	}
	r, err := f.operator.Discard(t.Context(), ann(), ids[:2])
	if err != nil || !slices.Equal(operate.IDsOf(r.Changed), ids[1:2]) || f.count("outbox_queue WHERE failed_at IS NOT NULL") != 0 {
		t.Errorf("discarded %+v, error %v", r, err)
	}
}

// TestTwoOperatorsReplayEachEventOnce gives both the same events, in opposite orders.
func TestTwoOperatorsReplayEachEventOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(200)
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	for range 10 {
		f.fail(ids...)
		var (
			mu        sync.Mutex
			replayed  []uuid.UUID
			operators sync.WaitGroup
		)
		for _, batch := range [][]uuid.UUID{ids, reversed} {
			operators.Go(func() {
				r, err := f.operator.Replay(t.Context(), ann(), batch)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				replayed = append(replayed, operate.IDsOf(r.Changed)...)
			})
		}
		operators.Wait()
		if slices.SortFunc(replayed, compareIDs); !slices.Equal(replayed, ids) {
			t.Fatalf("%d replayed, want each of %d once", len(replayed), len(ids))
		}
	}
}

// TestADecisionIsAboutWhatTheOperatorHasSeen: an event that has failed again since is not decided
// about, and if a filter selects fewer than before, nothing is.
func TestADecisionIsAboutWhatTheOperatorHasSeen(t *testing.T) {
	t.Parallel()
	inEachDecision(t, func(f fixture, action operate.Action, decide decide) {
		ids := f.appendMany(3)
		f.fail(ids...)
		filter := operate.Filter{Topic: "order.created"}
		seen, err := f.operator.Matching(f.Context(), filter)
		must(f, err)
		f.exec("UPDATE outbox_queue SET failed_at = now() WHERE id = $1", ids[1])
		r, err := decide(f.operator.AsOf(seen.At), f.Context(), ann(), ids[1:2])
		if err != nil || !slices.Equal(r.Refused, []operate.Refusal{{ids[1], "has failed again since you looked", true}}) {
			f.Errorf("decided %+v, error %v", r, err)
		}
		if r, err := f.operator.DecideAll(f.Context(), ann(), action, filter, seen); !errors.Is(err, operate.ErrChanged) {
			f.Errorf("decided %+v, error %v", r, err)
		}
		if f.count("operator_decisions") != 0 || f.count("outbox_queue WHERE failed_at IS NOT NULL") != 3 {
			f.Error("something was changed")
		}
		late := f.appendFailed(1)[0]
		f.exec("UPDATE outbox_queue SET failed_at = now() + interval '1 hour' WHERE id = $1", late)
		seen.Count = 2
		r, err = f.operator.DecideAll(f.Context(), ann(), action, filter, seen)
		if err != nil || !slices.Equal(operate.IDsOf(r.Changed), []uuid.UUID{ids[0], ids[2]}) {
			f.Errorf("decided %+v, error %v", r, err)
		}
	})
}

// TestADecisionOnThePageIsMadeOnce: a form that is sent twice, and a filter that still selects as
// many events as before, because one decision changes only so many.
func TestADecisionOnThePageIsMadeOnce(t *testing.T) { //nolint:paralleltest // its transaction has 15 s for thousands of events
	f := newFixture(t)
	f.fill(operate.MaxDecided + 20)
	filter := operate.Filter{Topic: "order.created"}
	seen, err := f.operator.Matching(t.Context(), filter)
	if err != nil || seen.Count != operate.MaxDecided || !seen.More {
		t.Fatalf("%+v, error %v", seen, err)
	}
	by := operate.NewDecision("ann", operate.Page, filter.String())
	by.Once = uuid.Max
	r, err := f.operator.DecideAll(t.Context(), by, operate.Replay, filter, seen)
	if err != nil || len(r.Changed) != operate.MaxDecided {
		t.Fatalf("%d changed, error %v", len(r.Changed), err)
	}
	f.exec("UPDATE outbox_queue SET available_at = 'infinity', failed_at = to_timestamp(1600000000) WHERE failed_at IS NULL")
	by.Decision = uuid.New()
	if _, err := f.operator.DecideAll(t.Context(), by, operate.Replay, filter, seen); !errors.Is(err, operate.ErrDecided) || f.count("operator_decisions") != 1 {
		t.Errorf("a second time: error %v", err)
	}
}

// TestADecisionRecordsTheEventsThatItChanged and not those that were chosen but had not failed.
func TestADecisionRecordsTheEventsThatItChanged(t *testing.T) {
	t.Parallel()
	inEachDecision(t, func(f fixture, action operate.Action, decide decide) {
		failed, pending := f.appendFailed(1)[0], f.appendMany(1)[0]
		by := operate.NewDecision("ann", operate.Page, "--topic order.created")
		for range 2 { // the second changes nothing
			_, err := decide(f.operator, f.Context(), by, []uuid.UUID{pending, failed, uuid.New()})
			must(f, err)
		}
		batches, err := f.log.Of(f.Context(), []string{failed.String(), pending.String()}, 10)
		if err != nil || len(batches) != 1 {
			f.Fatalf("recorded %+v, error %v", batches, err)
		}
		if b := batches[0]; b.By != by || b.Action != action || b.FinishedAt == nil || *b.Done != 1 || !slices.Equal(b.Items, []string{failed.String()}) {
			f.Errorf("recorded %+v", b)
		}
	})
}

// TestALargeDiscardGoesInPages: 1,001 ids are two records, and an id that occurs twice counts once.
// The name of the operator may be any text.
func TestALargeDiscardGoesInPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1001)
	f.fail(ids...)
	by := ann()
	by.Once, by.Operator = uuid.Max, "ann\x00"
	slices.SortFunc(ids, compareIDs)
	r, err := f.operator.Discard(t.Context(), by, slices.Concat(ids[500:], ids[:501])) // one of them twice
	if err != nil || !slices.Equal(operate.IDsOf(r.Changed), ids) || len(r.Refused) > 0 || f.count("operator_decisions") != 2 {
		t.Errorf("%d changed, %v refused, %d records, error %v", len(r.Changed), r.Refused, f.count("operator_decisions"), err)
	}
}

// TestADecisionAndItsRecordAreOneTransaction makes the commit fail after both were written.
func TestADecisionAndItsRecordAreOneTransaction(t *testing.T) {
	t.Parallel()
	inEachDecision(t, func(f fixture, _ operate.Action, decide decide) {
		id := f.appendFailed(1)[0]
		before := f.rows(id)
		f.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the commit fails'; END $$`)
		for _, table := range []string{"operator_decisions", "outbox_queue"} {
			f.exec(`CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON ` + table + `
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
			_, err := decide(f.operator, f.Context(), ann(), []uuid.UUID{id})
			if after := f.rows(id); err == nil || !slices.Equal(after, before) || f.count("operator_decisions") != 0 {
				f.Errorf("%s: error %v, the event is %v", table, err, after)
			}
			f.exec("DROP TRIGGER refuse ON " + table)
		}
	})
}
