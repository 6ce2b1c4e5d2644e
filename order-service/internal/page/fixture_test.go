package page_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/cli/clitest"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/page/pagetest"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/order"
	orderpage "example.com/transactional-outbox/order-service/internal/page"
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

// fixture is a page with a database of its own.
type fixture struct {
	pagetest.Site
	db    *postgres.DB
	audit *audit.Log
	dbURL string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, dbURL := servers.Migrated(t, postgres.Migrations{Files: migrations.Files})
	f := fixture{db: db, audit: audit.NewLog(db), dbURL: dbURL}
	f.Site = serve(t, dbURL)
	f.exec(servers.WritableOutboxView)
	return f
}

// serve returns the page of a process that uses this database.
func serve(t *testing.T, dbURL string) pagetest.Site {
	t.Helper()
	p, err := page.New(page.Config{
		Service: "order-service", Users: pagetest.Users(t), Peer: "notification-service",
		PeerPage: "http://mails.example", Jaeger: "http://jaeger.example",
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := page.OpenDatabase(t.Context(), dbURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	config := relay.Config{System: "rabbitmq", Destination: "outbox.events", AppID: "order-service"}
	orderpage.Register(p, orderpage.Dependencies{DB: db, Message: config.Message, WaitsFor: func() []string { return nil }})
	return pagetest.Serve(t, p)
}

func (f fixture) exec(statement string, args ...any) {
	f.Helper()
	err := f.db.InTx(f.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(f.Context()).Exec(statement, args...).Error
	})
	if err != nil {
		f.Fatal(err)
	}
}

// strings reads one column.
func (f fixture) strings(query string, args ...any) (column []string) {
	f.Helper()
	err := f.db.InSnapshot(f.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(f.Context()).Raw(query, args...).Scan(&column).Error
	})
	if err != nil {
		f.Fatal(err)
	}
	return column
}

// inStatus returns the ids of the events in a status, in their order.
func (f fixture) inStatus(status string) []string {
	f.Helper()
	return f.strings("SELECT id::text FROM outbox_status WHERE status = ? ORDER BY id", status)
}

// fail inserts n failed events of orders that do not exist, and returns their ids in their order.
func (f fixture) fail(n int, key string) []string {
	f.Helper()
	before := f.inStatus("failed")
	f.exec(`INSERT INTO outbox_status (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, status,
			retry_count, failure_code, failure_reason, failed_at)
		SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, ?, '{"customer_email": "jane@example.com"}', 'failed',
			20, 'refused', 'a queue refused it', now() FROM generate_series(1, ?)`, key, n)
	return slices.DeleteFunc(f.inStatus("failed"), func(id string) bool { return slices.Contains(before, id) })
}

// place places an order, and returns its id and that of its event.
func (f fixture) place(r order.Request) (id, event uuid.UUID) {
	f.Helper()
	r.ProductID, r.Quantity = "sku123", 2
	placed, err := order.NewService(f.db, func() {}).Place(f.Context(), r)
	if err != nil {
		f.Fatal(err)
	}
	return placed.ID, uuid.MustParse(f.strings("SELECT id::text FROM outbox_events WHERE aggregate_id = ?", placed.ID)[0])
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
