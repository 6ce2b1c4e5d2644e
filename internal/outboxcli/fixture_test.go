package outboxcli_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/cli/clitest"
	"example.com/transactional-outbox/internal/outboxcli"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	goleak.VerifyTestMain(m)
}

// orders is the service of these tests.
var orders = outboxcli.Service{
	Name: "order-service", Destination: "the broker", Topic: "order.created", Again: "It is safe to repeat.", Advice: cli.Advice,
}

// logged is the log of all tests. Each test looks for its own ids.
var logged clitest.Log

// fixture is an outbox in a database of its own, with a way to run commands.
type fixture struct {
	*testing.T
	db          *postgres.DB
	service     outboxcli.Service
	destination outboxcli.Destination
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, err := postgres.Open(t.Context(), servers.Database(t), 10, postgres.TxTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := outbox.Migrate(t.Context(), db.Pool()); err != nil {
		t.Fatal(err)
	}
	return fixture{T: t, db: db, service: orders, destination: func(context.Context, func(context.Context, publish.Session) error) error {
		t.Error("the command connects to the broker")
		return nil
	}}
}

// run runs a command line, and returns stdout and stderr.
func (b fixture) run(args ...string) (out, progress string, err error) {
	b.Helper()
	var printed, said bytes.Buffer
	action, err := b.service.Parse(args, &printed)
	if err == nil {
		err = action(b.Context(), outboxcli.Dependencies{
			Outbox: operate.New(b.db.Pool()), Destination: b.destination, AppID: "order-service",
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
func (b fixture) append(topics ...string) []uuid.UUID {
	b.Helper()
	order := uuid.NewString()
	var events []outbox.Event
	for i, topic := range topics {
		events = append(events, newEvent(order, i+1, topic))
	}
	return b.commit(events)
}

// appendMany commits the first events of n orders.
func (b fixture) appendMany(n int) []uuid.UUID {
	b.Helper()
	var events []outbox.Event
	for range n {
		events = append(events, newEvent(uuid.NewString(), 1, "order.created"))
	}
	return b.commit(events)
}

func newEvent(order string, version int, topic string) outbox.Event {
	return outbox.Event{
		ID: uuid.Must(uuid.NewV7()), Topic: topic, Aggregate: "order", AggregateID: order, Version: version,
		Payload: []byte(`{"quantity": 2}`),
	}
}

func (b fixture) commit(events []outbox.Event) (ids []uuid.UUID) {
	b.Helper()
	err := b.db.InTx(b.Context(), func(tx pgx.Tx) error { return outbox.Append(b.Context(), tx, events...) })
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// fail makes events failed since that many hours.
func (b fixture) fail(hours int, ids ...uuid.UUID) {
	b.Helper()
	b.exec(`UPDATE outbox_queue SET available_at = 'infinity', retry_count = 20, failure_code = 'refused',
		failure_reason = 'a queue refused it', failed_at = now() - $1 * interval '1 hour' WHERE id = ANY ($2)`, hours, ids)
}

func (b fixture) publish(hours int, ids ...uuid.UUID) {
	b.Helper()
	b.exec(`WITH done AS (DELETE FROM outbox_queue WHERE id = ANY ($2) RETURNING *)
		INSERT INTO outbox_published (id, slot, published_at) SELECT id, slot, now() - $1 * interval '1 hour' FROM done`, hours, ids)
}

func (b fixture) exec(statement string, args ...any) {
	b.Helper()
	if _, err := b.db.Pool().Exec(b.Context(), statement, args...); err != nil {
		b.Fatal(err)
	}
}

func readAll[T any](b fixture, query string, args ...any) []T {
	b.Helper()
	rows, err := b.db.Pool().Query(b.Context(), query, args...)
	if err != nil {
		b.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		b.Fatal(err)
	}
	return found
}

// table returns all rows of the outbox.
func (b fixture) table() []string {
	b.Helper()
	return readAll[string](b, "SELECT to_jsonb(o)::text FROM outbox_status o ORDER BY id")
}

// in returns the ids of the events in a status.
func (b fixture) in(status string) []uuid.UUID {
	b.Helper()
	return readAll[uuid.UUID](b, "SELECT id FROM outbox_status WHERE status = $1 ORDER BY id", status)
}

// ids returns the ids of the objects that --json printed, in their order.
func (b fixture) ids(out string) []uuid.UUID {
	b.Helper()
	return clitest.IDs[uuid.UUID](b, out)
}

func sorted(ids ...uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(ids), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
