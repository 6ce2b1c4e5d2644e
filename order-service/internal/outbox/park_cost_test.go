package outbox_test

import (
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// decisions are the ways to delete or replay a failed event, whose order has parked events.
var decisions = map[string]func(*testing.T, *postgres.DB, uuid.UUID) error{
	"Replay": func(t *testing.T, db *postgres.DB, id uuid.UUID) error {
		_, err := outbox.NewOperator(db).Replay(t.Context(), ann, []uuid.UUID{id})
		return err
	},
	"Discard": func(t *testing.T, db *postgres.DB, id uuid.UUID) error {
		_, err := outbox.NewOperator(db).Discard(t.Context(), ann, []uuid.UUID{id})
		return err
	},
	"a late confirm": func(t *testing.T, db *postgres.DB, id uuid.UUID) error {
		return outbox.NewStore(db).MarkPublished(t.Context(), uuid.Nil, []uuid.UUID{id})
	},
}

// failedWithParked fails the first event of an order, which has n parked events.
func (f fixture) failedWithParked(n int) (id uuid.UUID) {
	f.Helper()
	aggregate := uuid.New()
	id = f.append(aggregate, 1)[0]
	f.fail(id)
	f.appendLater(aggregate, n, "'infinity'")
	return id
}

// TestTheCostOfADecisionDoesNotGrowWithParkedEvents: a decision makes the next event due, and reads
// no other.
func TestTheCostOfADecisionDoesNotGrowWithParkedEvents(t *testing.T) {
	t.Parallel()
	for name, decide := range decisions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var costs []int
			for _, events := range []int{1000, 30_000} {
				f := newFixture(t)
				f.disableAutovacuum()
				id := f.failedWithParked(events)
				f.vacuum()
				costs = append(costs, f.blocksRead(func(db *postgres.DB) error { return decide(t, db, id) }))
			}
			wantBoundedGrowth(t, "blocks read with 1,000 and with 30,000 parked events", 2, costs)
		})
	}
}

// TestTheCostOfPublishingDoesNotGrowWithParkedEvents: after a replay, the events of an order are
// published one by one.
func TestTheCostOfPublishingDoesNotGrowWithParkedEvents(t *testing.T) {
	t.Parallel()
	var costs []int
	for _, events := range []int{1000, 30_000} {
		f := newFixture(t)
		f.disableAutovacuum()
		id := f.failedWithParked(events)
		f.vacuum()
		must(t, f.replay(id))
		costs = append(costs, f.blocksRead(func(db *postgres.DB) error {
			s := outbox.NewStore(db)
			for range 10 {
				c, err := s.Claim(t.Context(), "test", 500, lease)
				if must(t, err); len(c.Events) != 1 {
					t.Fatalf("claimed %d of one order, want 1", len(c.Events))
				}
				must(t, s.MarkPublished(t.Context(), c.Token, idsOf(c)))
			}
			return nil
		}))
	}
	wantBoundedGrowth(t, "blocks read to publish ten of 1,000 and of 30,000", 1.5, costs)
}
