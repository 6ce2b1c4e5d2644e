package page_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/cli/clitest"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/page/pagetest"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/internal/order"
	orderpage "example.com/transactional-outbox/order-service/internal/page"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox/operate"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	goleak.VerifyTestMain(m)
}

// logged is the log of all tests. Each test looks for its own ids.
var logged clitest.Log

// fixture is a page with a database of its own.
type fixture struct {
	pagetest.Site
	db    *postgres.DB
	log   *operate.Log
	dbURL string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, dbURL := postgrestest.Migrated(t, migrations.Schema)
	f := fixture{db: db, log: operate.NewLog(db.Pool()), dbURL: dbURL}
	f.Site = serve(t, dbURL)
	return f
}

// serve returns the page of a process that uses this database.
func serve(t *testing.T, dbURL string) pagetest.Site {
	t.Helper()
	p, err := page.New(page.Config{
		Service: "order-service", Users: pagetest.Users(t), Jaeger: "http://jaeger.example",
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := page.OpenDatabase(t.Context(), dbURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	orderpage.Register(p, orderpage.Dependencies{DB: db, WaitsFor: func() []string { return nil }})
	return pagetest.Serve(t, p)
}

func (f fixture) exec(statement string, args ...any) {
	f.Helper()
	if _, err := f.db.Pool().Exec(f.Context(), statement, args...); err != nil {
		f.Fatal(err)
	}
}

// strings reads one column.
func (f fixture) strings(query string, args ...any) (column []string) {
	f.Helper()
	rows, err := f.db.Pool().Query(f.Context(), query, args...)
	if err == nil {
		column, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		f.Fatal(err)
	}
	return column
}

// inStatus returns the ids of the events in a status, in their order.
func (f fixture) inStatus(status string) []string {
	f.Helper()
	return f.strings("SELECT id::text FROM outbox_status WHERE status = $1 ORDER BY id", status)
}

// fail inserts n failed events of orders that do not exist, and returns their ids in their order.
func (f fixture) fail(n int, topic string) []string {
	f.Helper()
	before := f.inStatus("failed")
	f.exec(`WITH event AS (
			INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type)
			SELECT gen_random_uuid(), current, 'order', gen_random_uuid()::text, 1, $1, '{"customer_email": "jane@example.com"}', 'application/json'
			FROM generate_series(1, $2), outbox_ring
			RETURNING *)
		INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes,
			available_at, retry_count, failure_code, failure_reason, failed_at)
		SELECT id, seq, slot, aggregate, aggregate_id, version, topic, 0, 'infinity', 20, 'refused', 'a queue refused it', now()
		FROM event`, topic, n)
	return slices.DeleteFunc(f.inStatus("failed"), func(id string) bool { return slices.Contains(before, id) })
}

// publish does what a relay does after the broker has confirmed an event.
func (f fixture) publish(event uuid.UUID) {
	f.Helper()
	f.exec(`WITH done AS (DELETE FROM outbox_queue WHERE id = $1 RETURNING *)
		INSERT INTO outbox_published (id, slot) SELECT id, slot FROM done`, event)
}

// place places an order, and returns its id and that of its event.
func (f fixture) place(r order.Request) (id, event uuid.UUID) {
	f.Helper()
	r.ProductID, r.Quantity = "sku123", 2
	placed, err := order.NewService(f.db, func() {}).Place(f.Context(), r)
	if err != nil {
		f.Fatal(err)
	}
	return placed.ID, uuid.MustParse(f.strings("SELECT id::text FROM outbox_events WHERE aggregate_id = $1", placed.ID.String())[0])
}

// preview asks for a preview, and returns the form for its decision.
func (f fixture) preview(user string, form url.Values) (decision url.Values) {
	f.Helper()
	return confirmed(f.Post(user, "/failed/preview", form).Want(200))
}

var countToType = regexp.MustCompile(`pattern="(\d+)"`)

// confirmed is the form of a preview, with the count that it asks for.
func confirmed(preview pagetest.Answer) url.Values {
	preview.Helper()
	form := preview.Form("/failed/decide")
	count := countToType.FindStringSubmatch(preview.Body)
	if count == nil {
		preview.Fatalf("the preview asks for no count:\n%s", preview.Main())
	}
	form.Set("count", count[1])
	return form
}

func (f fixture) wantStatus(status string, want []string) {
	f.Helper()
	if got := f.inStatus(status); !slices.Equal(got, want) {
		f.Errorf("%d events are %s, want %d:\n%.300s\n%.300s", len(got), status, len(want), fmt.Sprint(got), fmt.Sprint(want))
	}
}
