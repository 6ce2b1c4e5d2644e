package operate_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/operator/operatortest"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/order-service/internal/operate"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/migrations"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	goleak.VerifyTestMain(m)
}

// logged is the log of all tests; each looks for its own ids in it.
var logged operatortest.Log

// bench is an operator before an outbox of the test's own.
type bench struct {
	*testing.T
	db     *postgres.DB
	relay  relay.Config
	broker operate.Broker
}

func newBench(t *testing.T) bench {
	t.Helper()
	db, _ := servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	return bench{T: t, db: db, broker: func(context.Context, func(context.Context, relay.Broker) error) error {
		t.Error("the command connects to the broker")
		return nil
	}}
}

// run does what a command line says, and returns what is on stdout and stderr.
func (b bench) run(args ...string) (out, progress string, err error) {
	b.Helper()
	var printed, said bytes.Buffer
	action, err := operate.Parse(args, &printed)
	if err == nil {
		err = action(b.Context(), operate.Desk{
			Outbox: outbox.NewOperator(b.db), Relay: b.relay, Broker: b.broker,
			Out: &printed, Progress: &said, By: "somebody",
		})
	}
	return printed.String(), said.String(), err
}

// must is run where nothing may fail.
func (b bench) must(args ...string) (out string) {
	b.Helper()
	out, _, err := b.run(args...)
	if err != nil {
		b.Fatalf("%q: %v", args, err)
	}
	return out
}

// append commits events of one order and returns their ids.
func (b bench) append(keys ...string) (ids []uuid.UUID) {
	b.Helper()
	order := uuid.New()
	err := b.db.InTx(b.Context(), func(tx *postgres.Tx) error {
		for i, key := range keys {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			ids = append(ids, id)
			if err := outbox.Append(b.Context(), tx, outbox.Message{
				ID: id, AggregateType: "order", AggregateID: order, AggregateVersion: i + 1,
				EventKey: key, Payload: []byte(`{"quantity": 2}`),
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return ids
}

// appendMany commits the first events of n orders.
func (b bench) appendMany(n int) (ids []uuid.UUID) {
	b.Helper()
	b.exec(`INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
		SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', '{}' FROM generate_series(1, ?)`, n)
	b.read(&ids, "SELECT id FROM outbox_events ORDER BY id")
	return ids
}

// fail makes events failed, for some hours.
func (b bench) fail(hours int, ids ...uuid.UUID) {
	b.Helper()
	b.exec(`UPDATE outbox_events SET status = 'failed', retry_count = 20, failure_code = 'refused',
		failure_reason = 'a queue refused it', failed_at = now() - ? * interval '1 hour' WHERE id IN ?`, hours, ids)
}

func (b bench) publish(ids ...uuid.UUID) {
	b.Helper()
	b.exec("UPDATE outbox_events SET status = 'published', published_at = now() WHERE id IN ?", ids)
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

func (b bench) read(into any, query string, args ...any) {
	b.Helper()
	err := b.db.InSnapshot(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Raw(query, args...).Scan(into).Error
	})
	if err != nil {
		b.Fatal(err)
	}
}

// table is everything in the outbox.
func (b bench) table() (rows []string) {
	b.Helper()
	b.read(&rows, "SELECT to_jsonb(o)::text FROM outbox_events o ORDER BY id")
	return rows
}

// in returns the ids of the events in a status.
func (b bench) in(status string) (ids []uuid.UUID) {
	b.Helper()
	b.read(&ids, "SELECT id FROM outbox_events WHERE status = ? ORDER BY id", status)
	return ids
}

// ids are those of the objects that --json printed, in their order.
func (b bench) ids(out string) []uuid.UUID {
	b.Helper()
	return operatortest.IDs[uuid.UUID](b, out)
}

func sorted(ids ...uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(ids), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
