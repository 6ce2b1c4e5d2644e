package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

type decide = func(*outbox.Operator, context.Context, audit.By, []uuid.UUID) ([]outbox.Entry, error)

// inEachDecision runs a test with Replay and with Discard.
func inEachDecision(t *testing.T, test func(fixture, audit.Action, decide)) {
	for action, decide := range map[audit.Action]decide{
		audit.Replay: (*outbox.Operator).Replay, audit.Discard: (*outbox.Operator).Discard,
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			test(newFixture(t), action, decide)
		})
	}
}

// wantBatches checks which ids the batches of a decision have.
func (f fixture) wantBatches(by audit.By, want ...[]uuid.UUID) []audit.Batch {
	f.Helper()
	batches, err := audit.NewLog(f.db).Batches(f.Context(), by.Decision, uuid.Nil, 100)
	if err != nil {
		f.Fatal(err)
	}
	got := [][]string{}
	for _, b := range batches {
		got = append(got, b.Items)
	}
	for i, ids := range want {
		if len(got) != len(want) || !slices.Equal(got[i], audit.IDs(ids)) {
			f.Fatalf("the decision has the batches %v, want %v", got, want)
		}
	}
	if len(got) != len(want) {
		f.Fatalf("the decision has the batches %v, want %v", got, want)
	}
	return batches
}

// TestADecisionRecordsTheEventsThatItChanged and not those that were chosen but had not failed.
func TestADecisionRecordsTheEventsThatItChanged(t *testing.T) {
	t.Parallel()
	inEachDecision(t, func(f fixture, action audit.Action, decide decide) {
		failed, pending := f.appendFailed(1)[0], f.appendMany(1)[0]
		by := audit.New("ann", audit.Page, "--event-key order.created")
		for range 2 { // the second changes nothing
			if _, err := decide(outbox.NewOperator(f.db), f.Context(), by, []uuid.UUID{pending, failed, uuid.New()}); err != nil {
				f.Fatal(err)
			}
		}
		b := f.wantBatches(by, []uuid.UUID{failed})[0]
		if b.By != by || b.Action != action || b.FinishedAt == nil || *b.Done != 1 {
			f.Errorf("recorded %+v", b)
		}
	})
}

// TestADecisionAndItsRecordAreOneTransaction makes the commit fail after both were written.
func TestADecisionAndItsRecordAreOneTransaction(t *testing.T) {
	t.Parallel()
	inEachDecision(t, func(f fixture, _ audit.Action, decide decide) {
		id := f.appendFailed(1)[0]
		before := f.rowsAsJSON(id)
		f.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the commit fails'; END $$`)
		for _, table := range []string{"operator_decisions", "outbox_queue"} {
			f.exec(`CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON ` + table + `
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
			_, err := decide(outbox.NewOperator(f.db), f.Context(), ann, []uuid.UUID{id})
			if after := f.rowsAsJSON(id); err == nil || !slices.Equal(after, before) {
				f.Errorf("%s: error %v, the event is %v", table, err, after)
			}
			f.wantNone("SELECT count(*) FROM operator_decisions")
			f.exec("DROP TRIGGER refuse ON " + table)
		}
	})
}

// TestNobodyDecidesWithoutAName: without its record, a decision changes nothing.
func TestNobodyDecidesWithoutAName(t *testing.T) {
	t.Parallel()
	inEachDecision(t, func(f fixture, _ audit.Action, decide decide) {
		id := f.appendFailed(1)[0]
		before := f.rowsAsJSON(id)
		_, err := decide(outbox.NewOperator(f.db), f.Context(), audit.New("", audit.CLI, audit.ByIDs), []uuid.UUID{id})
		if after := f.rowsAsJSON(id); err == nil || errors.Is(err, context.Canceled) || !slices.Equal(after, before) {
			f.Errorf("error %v, the event is %v", err, after)
		}
	})
}
