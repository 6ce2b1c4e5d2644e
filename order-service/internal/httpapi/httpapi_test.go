package httpapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/env/check"
)

var schema = migrations.Schema

// silent is above every level, because these tests provoke many errors.
const silent = slog.LevelError + 1

func TestMain(m *testing.M) {
	flush := telemetry.Setup(context.Background(), os.Stdout, "httpapi-test", silent)
	// Setup found no collector, so its spans would record nothing.
	otel.SetTracerProvider(sdktrace.NewTracerProvider())
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		flush()
		os.Exit(code)
	}))
}

// fixture is the API on a database, with a client.
type fixture struct {
	*testing.T
	db       *postgres.DB
	api      *httptest.Server
	registry *prometheus.Registry
}

// newFixture creates a database for this test.
func newFixture(t *testing.T) fixture {
	t.Helper()
	db, _ := postgrestest.Migrated(t, schema)
	return newFixtureOn(t, db)
}

func newFixtureOn(t *testing.T, db *postgres.DB) fixture {
	t.Helper()
	return newLimitedFixture(t, db, httpapi.Limits{InFlight: 256})
}

func newLimitedFixture(t *testing.T, db *postgres.DB, limits httpapi.Limits) fixture {
	t.Helper()
	registry := prometheus.NewRegistry()
	api := httptest.NewServer(newAPI(db, limits, registry))
	t.Cleanup(api.Close)
	return fixture{t, db, api, registry}
}

func newAPI(db *postgres.DB, limits httpapi.Limits, registry *prometheus.Registry) http.Handler {
	return httpapi.New(order.NewService(db, func() {}), limits, httpapi.NewMetrics(registry))
}

type reply struct {
	status int
	header http.Header
	body   string
}

// answerOf sends a request to an API without a network.
func answerOf(api http.Handler, request *http.Request) reply {
	recorded := httptest.NewRecorder()
	api.ServeHTTP(recorded, request)
	return reply{status: recorded.Code, header: recorded.Header(), body: recorded.Body.String()}
}

// send sends a request. header has pairs of name and value.
func (b fixture) send(method, path, body string, header ...string) reply {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), method, b.api.URL+path, strings.NewReader(body))
	check.Must(b, err)
	for pair := range slices.Chunk(header, 2) {
		request.Header.Add(pair[0], pair[1])
	}
	response, err := b.api.Client().Do(request)
	check.Must(b, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	check.Must(b, err)
	return reply{status: response.StatusCode, header: response.Header, body: string(text)}
}

func (b fixture) get(path string) reply {
	b.Helper()
	return b.send(http.MethodGet, path, "")
}

func (b fixture) post(body string) reply {
	b.Helper()
	return b.send(http.MethodPost, "/orders", body, "Content-Type", "application/json")
}

// in returns the same fixture for a subtest.
func (b fixture) in(t *testing.T) fixture {
	b.T = t
	return b
}

// into decodes an answer with this status. A field that v does not have is an error.
func (r reply) into(t *testing.T, status int, v any) {
	t.Helper()
	if r.status != status || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s, want %d application/json: %s", r.status, r.header.Get("Content-Type"), status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
}

// countRows counts the rows of orders and their events.
func (b fixture) countRows() (rows int) {
	b.Helper()
	b.read(&rows, "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox_events)")
	return rows
}

func (b fixture) read(into any, query string) {
	b.Helper()
	err := b.db.InGorm(b.Context(), func(tx *gorm.DB) error { return tx.Raw(query).Scan(into).Error })
	check.Must(b, err)
}

func (b fixture) exec(statement string, args ...any) {
	b.Helper()
	err := b.db.InGorm(b.Context(), func(tx *gorm.DB) error { return tx.Exec(statement, args...).Error })
	check.Must(b, err)
}
