package operate_test

import (
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// TestAnIDThatIsDiscardedTwice: Append takes an id again when the ring has turned. Its event can be
// discarded as well, and the other events of the decision with it.
func TestAnIDThatIsDiscardedTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.appendAlone()
	f.fail(id)
	by := operate.NewDecision("ann", operate.CLI, operate.ByIDs)
	for _, slot := range []int{1, 2} {
		r, err := f.operator.Discard(t.Context(), by, []uuid.UUID{id})
		if err != nil || len(r.Changed) != 1 {
			t.Fatalf("%+v, error %v", r, err)
		}
		f.exec("UPDATE outbox_ring SET current = $1", slot)
		f.exec(insertSQL("SELECT cast($1 AS uuid), NULL::int, NULL::text, 'report'"), id)
		f.fail(id)
	}
}
