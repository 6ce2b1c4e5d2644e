package outboxcli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop has all commands.
var shop = Service{Name: "shop", Schema: migrations.Schema, Topic: "order.created", Republishes: true}

// run runs a command line in an environment. It returns what it prints to stdout and stderr.
func (e *env) run(ctx context.Context, line ...string) (out, progress string, err error) {
	var printed, said strings.Builder
	commands := map[string]any{"outbox": e.eventCommands(), "dlq": &letterCommands{}}
	run, err := e.parse(line[0], commands[line[0]], line[1:], &printed)
	if err == nil {
		here := *e
		here.out, here.progress = &printed, &said
		err = run(ctx, &here)
	}
	return printed.String(), said.String(), err
}

// status is the exit status for an error.
func status(err error) int {
	if left, ok := errors.AsType[leftError](err); ok {
		return left.ExitStatus()
	}
	return map[bool]int{true: 0, false: 1}[err == nil]
}

func wantAll(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in\n%s", word, text)
		}
	}
}

// idsOf returns the ids of the objects that --json printed, in their order.
func idsOf(t *testing.T, out string) (ids []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var object struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%q is no JSON: %v", line, err)
		}
		ids = append(ids, object.ID)
	}
	return ids
}

// fixture is an outbox in a database of its own.
type fixture struct {
	*testing.T
	*env
	db *postgres.DB
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, url := postgrestest.Migrated(t, migrations.Schema)
	e := newEnv(shop, Servers{DatabaseURL: url}, nil, nil)
	e.Broker = func() (publish.Destination, error) { return nil, errors.New("AMQP_URL is not set") }
	return fixture{t, e, db}
}

// must runs an outbox command that must succeed.
func (f fixture) must(line ...string) (out string) {
	f.Helper()
	out, _, err := f.run(f.Context(), append([]string{"outbox"}, line...)...)
	if err != nil {
		f.Fatalf("%q: %v", line, err)
	}
	return out
}

// append commits the first event of an order for each topic, and returns their ids.
func (f fixture) append(topics ...string) (ids []string) {
	f.Helper()
	var events []outbox.Event
	for _, topic := range topics {
		events = append(events, outbox.Event{
			ID: uuid.Must(uuid.NewV7()), Topic: topic, Aggregate: "order", AggregateID: uuid.NewString(), Version: 1,
			Payload: []byte(`{"quantity": 2, "to": "o'neil@example.com"}`), Headers: map[string]string{"from": "o'neil@example.com"},
		})
		ids = append(ids, events[len(events)-1].ID.String())
	}
	check.Must(f.T, pgx.BeginFunc(f.Context(), f.db.Pool(), func(tx pgx.Tx) error { return outbox.Append(f.Context(), tx, events...) }))
	return ids
}

// fail makes events failed since that many hours.
func (f fixture) fail(hours int, ids ...string) {
	f.Helper()
	f.exec(`UPDATE outbox_queue SET available_at = 'infinity', retry_count = 20, failure_code = 'refused',
		failure_reason = 'red '||chr(27)||'[31m <o''neil@example.com>', failed_at = now() - $1 * interval '1 hour' WHERE id = ANY ($2::uuid[])`, hours, ids)
}

func (f fixture) publish(hours int, ids ...string) {
	f.Helper()
	f.exec(`WITH done AS (DELETE FROM outbox_queue WHERE id = ANY ($2::uuid[]) RETURNING *)
		INSERT INTO outbox_done (id, status, retry_count, done_at) SELECT id, 'published', retry_count, now() - $1 * interval '1 hour' FROM done`, hours, ids)
}

func (f fixture) exec(statement string, args ...any) {
	f.Helper()
	check.Exec(f.T, f.db.Pool(), statement, args...)
}

// decisions returns what operators have decided, the newest first.
func (f fixture) decisions() []operate.Decision {
	f.Helper()
	found, err := operate.NewLog(f.db.Pool()).List(f.Context(), uuid.Nil, 100)
	check.Must(f.T, err)
	return found
}
