package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// decisions are what brings back the events that are parked behind a failed one.
var decisions = map[string]func(*testing.T, *postgres.DB, uuid.UUID) error{
	"Replay": func(t *testing.T, db *postgres.DB, id uuid.UUID) error {
		_, err := outbox.NewOperator(db).Replay(t.Context(), []uuid.UUID{id})
		return err
	},
	"Discard": func(t *testing.T, db *postgres.DB, id uuid.UUID) error {
		_, err := outbox.NewOperator(db).Discard(t.Context(), []uuid.UUID{id})
		return err
	},
	"a late confirm": func(t *testing.T, db *postgres.DB, id uuid.UUID) error {
		return outbox.NewStore(db).MarkPublished(t.Context(), []uuid.UUID{id})
	},
}

// failedWithMany fails the first event of an aggregate with n later ones, which are parked.
func (b bench) failedWithMany(n int) (id uuid.UUID) {
	b.Helper()
	aggregate := uuid.New()
	id = b.append(aggregate, 1)[0]
	b.fail(id)
	b.laterEvents(aggregate, n, "'infinity'")
	return id
}

// laterEvents adds n events to an aggregate with one.
func (b bench) laterEvents(aggregate uuid.UUID, n int, due string) {
	b.Helper()
	b.exec(`INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, available_at)
		SELECT gen_random_uuid(), 'order', ?, 1 + i, 'order.created', '{}', `+due+` FROM generate_series(1, ?) i`, aggregate, n)
}

// TestADecisionCostsTheSameForEachParkedEvent however many there are.
func TestADecisionCostsTheSameForEachParkedEvent(t *testing.T) {
	t.Parallel()
	for name, decide := range decisions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var costs []int
			for _, events := range []int{1000, 16_000} {
				b := newBench(t)
				b.quiet()
				id := b.failedWithMany(events)
				b.vacuum()
				blocks := b.blocks(func(db *postgres.DB) error { return decide(t, db, id) })
				b.wantNone("SELECT count(*) FROM outbox_events WHERE available_at = 'infinity'")
				costs = append(costs, blocks*1000/events)
			}
			wantFlat(t, "blocks read for 1,000 parked events", 2, costs) // by one plan or the other
		})
	}
}

// TestADecisionBringsBackAHundredThousand within a bound of one statement that is a
// fraction of what the services have.
func TestADecisionBringsBackAHundredThousand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.failedWithMany(100_000)
	db, err := postgres.Open(t.Context(), b.url+"&statement_timeout=30s", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	began := time.Now()
	if err := decisions["Replay"](t, db, id); err != nil {
		t.Error(err)
	}
	t.Logf("100,000 parked events are back in %s", time.Since(began))
	b.wantNone("SELECT count(*) FROM outbox_events WHERE available_at = 'infinity'")
}
