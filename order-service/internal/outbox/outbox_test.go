package outbox_test

import (
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an outbox in a database of the test's own.
type bench struct {
	*testing.T
	db    *postgres.DB
	url   string
	store *outbox.Store
}

func newBench(t *testing.T) bench {
	t.Helper()
	db, url := servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	return bench{t, db, url, outbox.NewStore(db)}
}

func message(aggregate uuid.UUID, version int) outbox.Message {
	return outbox.Message{
		ID: uuid.New(), AggregateType: "order", AggregateID: aggregate, AggregateVersion: version,
		EventKey: "order.created", Payload: []byte(`{"a": 1}`),
	}
}

// append commits one event of each version of an aggregate and returns their ids.
func (b bench) append(aggregate uuid.UUID, versions ...int) (ids []uuid.UUID) {
	b.Helper()
	var events []outbox.Message
	for _, v := range versions {
		m := message(aggregate, v)
		events, ids = append(events, m), append(ids, m.ID)
	}
	b.commit(events)
	return ids
}

func (b bench) commit(events []outbox.Message) {
	b.Helper()
	err := b.db.InTx(b.Context(), func(tx *postgres.Tx) error {
		for _, m := range events {
			if err := outbox.Append(b.Context(), tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// appendMany commits n events of n aggregates.
func (b bench) appendMany(n int) (ids []uuid.UUID) {
	b.Helper()
	for range n {
		ids = append(ids, b.append(uuid.New(), 1)...)
	}
	return ids
}

func (b bench) claim(limit int) outbox.Claim {
	b.Helper()
	claim, err := b.store.Claim(b.Context(), "test", limit, lease)
	if err != nil {
		b.Fatal(err)
	}
	return claim
}

// endLeases makes every lease end now: the database's clock is the only one that
// counts, so the test moves the end and not the clock.
func (b bench) endLeases() {
	b.Helper()
	b.exec("UPDATE outbox_events SET available_at = now() WHERE status = 'in_progress'")
}

func (b bench) exec(statement string, args ...any) {
	b.Helper()
	err := b.db.InTx(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Exec(statement, args...).Error
	})
	if err != nil {
		b.Fatal(err)
	}
}

// row is what the tests look at.
type row struct {
	Status       string
	RetryCount   int
	FailureCode  string
	DueInSeconds float64
}

func (b bench) row(id uuid.UUID) (r row) {
	b.Helper()
	b.read(&r, `SELECT status, retry_count, coalesce(failure_code, '') AS failure_code,
		extract(epoch FROM available_at)::float8 - extract(epoch FROM now())::float8 AS due_in_seconds FROM outbox_events WHERE id = ?`, id)
	return r
}

func (b bench) read(into any, query string, args ...any) {
	b.Helper()
	err := b.db.InSnapshot(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Raw(query, args...).Scan(into).Error
	})
	if err != nil {
		b.Fatal(err)
	}
}

func idsOf(c outbox.Claim) (ids []uuid.UUID) {
	for _, e := range c.Events {
		ids = append(ids, e.ID)
	}
	return ids
}
