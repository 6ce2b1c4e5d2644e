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
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/migrations"
)

var schema = postgres.Migrations{Files: migrations.Files}

// silent is above every level: what these tests provoke is not worth a log.
const silent = slog.LevelError + 1

func TestMain(m *testing.M) {
	flush, err := telemetry.Setup(context.Background(), "httpapi-test", silent)
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		flush()
		os.Exit(code)
	}))
}

// bench is the API over a database, and a client of it.
type bench struct {
	*testing.T
	db       *postgres.DB
	api      *httptest.Server
	registry *prometheus.Registry
}

// newBench has a database of its own.
func newBench(t *testing.T) bench {
	t.Helper()
	db, _ := servertest.Migrated(t, schema)
	return over(t, db)
}

func over(t *testing.T, db *postgres.DB) bench {
	t.Helper()
	return limited(t, db, httpapi.Limits{InFlight: 256})
}

func limited(t *testing.T, db *postgres.DB, limits httpapi.Limits) bench {
	t.Helper()
	registry := prometheus.NewRegistry()
	api := httptest.NewServer(newAPI(db, limits, registry))
	t.Cleanup(api.Close)
	return bench{t, db, api, registry}
}

func newAPI(db *postgres.DB, limits httpapi.Limits, registry *prometheus.Registry) http.Handler {
	return httpapi.New(order.NewService(db, func() {}), limits, httpapi.NewMetrics(registry))
}

type reply struct {
	status int
	header http.Header
	body   string
}

// answerOf asks an API without a network.
func answerOf(api http.Handler, request *http.Request) reply {
	recorded := httptest.NewRecorder()
	api.ServeHTTP(recorded, request)
	return reply{status: recorded.Code, header: recorded.Header(), body: recorded.Body.String()}
}

// send takes header fields as pairs of name and value.
func (b bench) send(method, path, body string, header ...string) reply {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), method, b.api.URL+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for pair := range slices.Chunk(header, 2) {
		request.Header.Add(pair[0], pair[1])
	}
	response, err := b.api.Client().Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return reply{status: response.StatusCode, header: response.Header, body: string(text)}
}

func (b bench) get(path string) reply {
	b.Helper()
	return b.send(http.MethodGet, path, "")
}

func (b bench) post(body string) reply {
	b.Helper()
	return b.send(http.MethodPost, "/orders", body, "Content-Type", "application/json")
}

// on is the same bench in a subtest.
func (b bench) on(t *testing.T) bench {
	b.T = t
	return b
}

// into reads an answer of this status; a field that v does not have is an error.
func (r reply) into(t *testing.T, status int, v any) {
	t.Helper()
	if r.status != status || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s, want %d application/json: %s", r.status, r.header.Get("Content-Type"), status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
}

// eventually waits for what tells nobody that it happened.
func (b bench) eventually(what string, happened func() bool) {
	b.Helper()
	ask := time.NewTicker(5 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); !happened(); <-ask.C {
		if time.Now().After(deadline) {
			b.Fatalf("never: %s", what)
		}
	}
}

// patience bounds a failure; no promise rests on it.
const patience = 30 * time.Second

// written counts the rows that an order makes.
func (b bench) written() (rows int) {
	b.Helper()
	b.read(&rows, "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox_events)")
	return rows
}

func (b bench) read(into any, query string) {
	b.Helper()
	err := b.db.InSnapshot(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Raw(query).Scan(into).Error
	})
	if err != nil {
		b.Fatal(err)
	}
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
