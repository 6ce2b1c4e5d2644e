package cli_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/cli/clitest"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/publish"
	outboxcli "example.com/transactional-outbox/order-service/internal/cli"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	goleak.VerifyTestMain(m)
}

// logged is the log of all tests. Each test looks for its own ids.
var logged clitest.Log

// fixture is an outbox in a database of its own, with a way to run commands.
type fixture struct {
	*testing.T
	db     *postgres.DB
	relay  relay.Config
	broker outboxcli.Broker
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, _ := servers.Migrated(t, postgres.Migrations{Files: migrations.Files})
	b := fixture{T: t, db: db, broker: func(context.Context, func(context.Context, publish.Session) error) error {
		t.Error("the command connects to the broker")
		return nil
	}}
	b.exec(servers.WritableOutboxView)
	return b
}

// run runs a command line, and returns stdout and stderr.
func (b fixture) run(args ...string) (out, progress string, err error) {
	b.Helper()
	var printed, said bytes.Buffer
	action, err := outboxcli.Parse(args, &printed)
	if err == nil {
		err = action(b.Context(), outboxcli.Dependencies{
			Outbox: outbox.NewOperator(b.db), Decisions: audit.NewLog(b.db), Relay: b.relay, Broker: b.broker,
			Out: &printed, Progress: &said, By: "somebody",
		})
	}
	return printed.String(), said.String(), err
}

// must runs a command line that must succeed.
func (b fixture) must(args ...string) (out string) {
	b.Helper()
	out, _, err := b.run(args...)
	if err != nil {
		b.Fatalf("%q: %v", args, err)
	}
	return out
}

// append commits events of one order and returns their ids.
func (b fixture) append(keys ...string) (ids []uuid.UUID) {
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
func (b fixture) appendMany(n int) (ids []uuid.UUID) {
	b.Helper()
	b.exec(`INSERT INTO outbox_status (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
		SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', '{}' FROM generate_series(1, ?)`, n)
	b.read(&ids, "SELECT id FROM outbox_status ORDER BY id")
	return ids
}

// fail makes events failed since that many hours.
func (b fixture) fail(hours int, ids ...uuid.UUID) {
	b.Helper()
	b.exec(`UPDATE outbox_status SET status = 'failed', retry_count = 20, failure_code = 'refused',
		failure_reason = 'a queue refused it', failed_at = now() - ? * interval '1 hour' WHERE id IN ?`, hours, ids)
}

func (b fixture) publish(ids ...uuid.UUID) {
	b.Helper()
	b.exec("UPDATE outbox_status SET status = 'published', published_at = now() WHERE id IN ?", ids)
}

func (b fixture) exec(statement string, args ...any) {
	b.Helper()
	err := b.db.InTx(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Exec(statement, args...).Error
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (b fixture) read(into any, query string, args ...any) {
	b.Helper()
	err := b.db.InSnapshot(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Raw(query, args...).Scan(into).Error
	})
	if err != nil {
		b.Fatal(err)
	}
}

// table returns all rows of the outbox.
func (b fixture) table() (rows []string) {
	b.Helper()
	b.read(&rows, "SELECT to_jsonb(o)::text FROM outbox_status o ORDER BY id")
	return rows
}

// in returns the ids of the events in a status.
func (b fixture) in(status string) (ids []uuid.UUID) {
	b.Helper()
	b.read(&ids, "SELECT id FROM outbox_status WHERE status = ? ORDER BY id", status)
	return ids
}

// ids returns the ids of the objects that --json printed, in their order.
func (b fixture) ids(out string) []uuid.UUID {
	b.Helper()
	return clitest.IDs[uuid.UUID](b, out)
}

func sorted(ids ...uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(ids), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
