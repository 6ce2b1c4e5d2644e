package outbox_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// readsOfTheLog finds one event. The event has these settings of outbox_status.
var readsOfTheLog = map[string]struct {
	event string
	find  func(ctx context.Context, f fixture, id uuid.UUID) ([]uuid.UUID, error)
}{
	"republish": {"status = 'published', published_at = now() - interval '160 hours'", func(ctx context.Context, f fixture, _ uuid.UUID) (ids []uuid.UUID, err error) {
		window := outbox.Window{Since: time.Now().Add(-aWeek), Until: time.Now()}
		found, _, err := outbox.NewOperator(f.db).Published(ctx, window, outbox.Range{Last: uuid.Max}, uuid.Nil, 10)
		for _, e := range found {
			ids = append(ids, e.ID)
		}
		return ids, err
	}},
	"find": {failedEvent, func(ctx context.Context, f fixture, _ uuid.UUID) ([]uuid.UUID, error) {
		found, err := outbox.NewOperator(f.db).Find(ctx, outbox.Filter{Status: "failed", Before: time.Now()}, uuid.Nil, 10)
		return entryIDs(found), err
	}},
	"get": {failedEvent, func(ctx context.Context, f fixture, id uuid.UUID) ([]uuid.UUID, error) {
		found, err := outbox.NewOperator(f.db).Get(ctx, id)
		return entryIDs(found), err
	}},
	"show": {failedEvent, func(ctx context.Context, f fixture, id uuid.UUID) ([]uuid.UUID, error) {
		found, err := outbox.NewOperator(f.db).Show(ctx, id)
		return []uuid.UUID{found.ID}, err
	}},
	"locate": {failedEvent, func(ctx context.Context, f fixture, id uuid.UUID) ([]uuid.UUID, error) {
		_, err := outbox.NewOperator(f.db).Locate(ctx, id)
		return []uuid.UUID{id}, err
	}},
	"order": {failedEvent, func(ctx context.Context, f fixture, id uuid.UUID) (ids []uuid.UUID, err error) {
		_, events, err := order.NewService(f.db, func() {}).Get(ctx, id)
		for _, e := range events {
			ids = append(ids, e.ID)
		}
		return ids, err
	}},
	"claim": {"status = 'pending'", func(_ context.Context, f fixture, _ uuid.UUID) (ids []uuid.UUID, err error) {
		// A claim that has missed it does not keep it until the lease ends.
		for range 2 {
			ids = append(ids, idsOf(f.claim(10))...)
		}
		return ids, nil
	}},
}

const failedEvent = "status = 'failed', failed_at = now() - interval '160 hours', failure_code = 'refused'"

// TestNoReadMissesAnEventThatMovesToAnotherPartition. The read waits for the lock of a janitor, and
// the janitor moves the event. A snapshot from before that does not have the event in its new
// place. Then republish would pass over it.
func TestNoReadMissesAnEventThatMovesToAnotherPartition(t *testing.T) {
	t.Parallel()
	for name, read := range readsOfTheLog {
		for janitor, move := range map[string]struct {
			statement string
			append    func(f fixture) uuid.UUID
		}{
			"drop": {"SELECT outbox_drop_partition('7 days')", func(f fixture) uuid.UUID { return f.oldPartition(read.event)[0] }},
			"make": {"SELECT outbox_make_partition('1 hour')", func(f fixture) uuid.UUID {
				id := f.appendAt(10 * time.Minute) // of a clock that is fast
				f.exec("UPDATE outbox_status SET "+read.event+" WHERE id = ?", id)
				return id
			}},
		} {
			t.Run(name+", "+janitor, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				reader := f.withOneConnection()
				reader.appendMany(1)
				reader.publishAllDue(1)
				// A statement that is not prepared yet waits for the janitor before the transaction begins.
				_, _ = read.find(t.Context(), reader, uuid.New()) // there is no such event
				id := move.append(f)
				f.placeOrderOf(id)
				var found []uuid.UUID
				var end func()
				must(t, f.db.InTx(t.Context(), func(tx *postgres.Tx) error {
					var partition string
					must(t, tx.Gorm(t.Context()).Raw(move.statement).Scan(&partition).Error)
					if partition == "" {
						t.Error("the janitor had nothing to do")
					}
					end = f.startUntilBlocked(1, func() (err error) {
						found, err = read.find(t.Context(), reader, id)
						return err
					})
					return nil
				}))
				if end(); !slices.Contains(found, id) {
					t.Errorf("found %v, want %v", found, id)
				}
			})
		}
	}
}

// placeOrderOf gives an event and its order the same id, and inserts the order.
func (f fixture) placeOrderOf(event uuid.UUID) {
	f.Helper()
	f.exec("UPDATE outbox_queue SET aggregate_id = id WHERE id = ?", event)
	f.exec("UPDATE outbox_events SET aggregate_id = id WHERE id = ?", event)
	f.exec(`INSERT INTO orders (id, version, customer_id, customer_email, product_id, quantity, amount, currency, status)
		VALUES (?, 1, gen_random_uuid(), '', 'sku123', 1, 1, 'GBP', 'pending')`, event)
}

// withOneConnection returns the same outbox with a pool of one connection.
func (f fixture) withOneConnection() fixture {
	f.Helper()
	db, err := postgres.Open(f.Context(), f.url, 1)
	must(f.T, err)
	f.Cleanup(db.Close)
	return fixture{f.T, db, f.url, outbox.NewStore(db)}
}
