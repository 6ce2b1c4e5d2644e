package operate_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/operate"
)

// TestP7AnEventThatLetOthersPassIsReplayedIntoItsOrder: it is due, and the next one waits for it.
func TestP7AnEventThatLetOthersPassIsReplayedIntoItsOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.append("1", 1)[0]
	f.letPass(first)
	shown, err := f.operator.Show(t.Context(), first)
	if err != nil || !shown.LetPass || shown.Overtaken || shown.Aggregate != "order" || shown.AggregateID != "1" || shown.Version != 1 {
		t.Fatalf("%+v, error %v", shown, err)
	}
	r, err := f.operator.Replay(t.Context(), ann(), []uuid.UUID{first})
	if err != nil || !slices.Equal(operate.IDsOf(r.Changed), []uuid.UUID{first}) || len(r.Refused) != 0 || r.Changed[0].LetPass {
		t.Fatalf("%+v, error %v", r, err)
	}
	second := f.append("1", 2)[0]
	if due := f.due(); !slices.Equal(due, []uuid.UUID{first}) {
		t.Errorf("claimed %v, want %v", due, first)
	}
	f.settle(store.Settlement{Published: []uuid.UUID{first}})
	if due := f.due(); !slices.Equal(due, []uuid.UUID{second}) {
		t.Errorf("then claimed %v, want %v", due, second)
	}
}

// TestP7AnEventThatANewerOneHasOvertakenIsNotReplayed, whatever became of the newer one.
func TestP7AnEventThatANewerOneHasOvertakenIsNotReplayed(t *testing.T) {
	t.Parallel()
	for name, newer := range map[string]func(f fixture, id uuid.UUID){
		"waits":        func(fixture, uuid.UUID) {},
		"in progress":  func(f fixture, id uuid.UUID) { f.claim(id) },
		"published":    func(f fixture, id uuid.UUID) { f.publish("now()", id) },
		"failed":       func(f fixture, id uuid.UUID) { f.letPass(id) },
		"discarded":    func(f fixture, id uuid.UUID) { f.finish(false, id) },
		"same version": func(f fixture, id uuid.UUID) { f.exec("UPDATE outbox_events SET version = 1 WHERE id = $1", id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.append("1", 1, 2)
			other := f.append("2", 1)[0]
			f.letPass(ids[0], other)
			newer(f, ids[1])
			before := f.rows(ids...)
			want := []operate.Refusal{{ids[0], f.overtaken(ids[0]), true}}
			for _, try := range []func() (operate.Result, error){
				func() (operate.Result, error) {
					return f.operator.DryRun(t.Context(), operate.Replay, []uuid.UUID{ids[0], other})
				},
				func() (operate.Result, error) {
					return f.operator.Replay(t.Context(), ann(), []uuid.UUID{ids[0], other})
				},
			} {
				if r, err := try(); err != nil || !slices.Equal(r.Refused, want) || !slices.Equal(operate.IDsOf(r.Changed), []uuid.UUID{other}) {
					t.Errorf("%+v, error %v, want %+v", r, err, want)
				}
			}
			if after := f.rows(ids...); !slices.Equal(after, before) {
				t.Errorf("it changed\n%v to\n%v", before, after)
			}
			if r, err := f.operator.Discard(t.Context(), ann(), ids[:1]); err != nil || !slices.Equal(operate.IDsOf(r.Changed), ids[:1]) {
				t.Errorf("discarded %+v, error %v", r, err)
			}
		})
	}
}

// TestAnEventThatLetOthersPassIsFoundByItsOrder, and holds nothing back.
func TestAnEventThatLetOthersPassIsFoundByItsOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("1", 1, 2, 3)
	f.letPass(ids[0])
	filter := operate.Filter{Status: operate.Failed, Aggregate: "order", AggregateID: "1"}
	listed, err := f.operator.List(t.Context(), filter, uuid.Nil, 10)
	must(t, err)
	failed, err := f.operator.Failed(t.Context(), filter, operate.Cursor{}, 10)
	must(t, err)
	chosen, err := f.operator.Choose(t.Context(), filter, 10)
	must(t, err)
	for _, found := range [][]uuid.UUID{operate.IDsOf(listed), operate.IDsOf(failed), chosen.IDs} {
		if !slices.Equal(found, ids[:1]) {
			t.Errorf("found %v, want %v", found, ids[:1])
		}
	}
	shown, err := f.operator.Show(t.Context(), ids[0])
	if err != nil || !shown.LetPass || !shown.Overtaken || shown.Waiting != 0 || len(shown.BlockedBy) != 0 {
		t.Errorf("%+v, error %v", shown, err)
	}
	next, err := f.operator.Show(t.Context(), ids[1])
	if err != nil || next.LetPass || len(next.BlockedBy) != 0 || next.Waiting != 1 {
		t.Errorf("%+v, error %v", next, err)
	}
}

// TestP7NoNewerEventIsClaimedWhileAnOlderOneIsReplayed: the newer event is appended after the replay
// has looked into the log. A claim that does not see the replayed one yet must wait for it.
func TestP7NoNewerEventIsClaimedWhileAnOlderOneIsReplayed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	older := f.append("1", 1)[0]
	f.letPass(older)
	f.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$;
		CREATE TRIGGER wait BEFORE INSERT ON operator_decisions FOR EACH ROW EXECUTE FUNCTION wait()`)
	var replay sync.WaitGroup
	replay.Go(func() {
		if r, err := f.operator.Replay(t.Context(), ann(), []uuid.UUID{older}); err != nil || len(r.Changed) != 1 {
			t.Errorf("%+v, error %v", r, err)
		}
	})
	defer replay.Wait()
	for deadline := time.Now().Add(2 * time.Minute); f.count("pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody replays")
		}
	}
	f.append("1", 2)
	if due := f.due(); !slices.Equal(due, []uuid.UUID{older}) {
		t.Errorf("claimed %v, want %v", due, older)
	}
}
