package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/test/env/servers"
)

// internals are words that must not be in an answer, because they show how the service works.
var internals = []string{
	"pgx", "pgconn", "SQLSTATE", "SQL", "sql:", "ERROR:", "gorm", "constraint", "outbox_events", "amqp", "AMQP",
	"json:", "jsontext", "unmarshal", "invalid character", "EOF", "dial tcp", "connect:", "127.0.0.1", "http:",
	"context deadline", "goroutine", "panic", ".go:", "github.com", "example.com/transactional", "invalid UUID", "mail:",
}

// isProblem fails unless r is a problem document (RFC 9457) with this status, exactly these
// fields and no internals.
func (r reply) isProblem(t *testing.T, status int, fields ...string) {
	t.Helper()
	if r.status != status || r.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got %d %s, want %d application/problem+json: %s", r.status, r.header.Get("Content-Type"), status, r.body)
	}
	var p struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Errors []struct {
			Field  string `json:"field"`
			Detail string `json:"detail"`
		} `json:"errors"`
	}
	if err := json.Unmarshal([]byte(r.body), &p, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	if p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("status, title or detail is wrong: %s", r.body)
	}
	var named []string
	for _, fault := range p.Errors {
		named = append(named, fault.Field)
		if fault.Detail == "" {
			t.Errorf("field %q has no detail", fault.Field)
		}
	}
	if !slices.Equal(named, fields) {
		t.Errorf("names the fields %q, want %q: %s", named, fields, r.body)
	}
	for _, word := range internals {
		if strings.Contains(r.body, word) {
			t.Errorf("the body contains %q: %s", word, r.body)
		}
	}
}

func TestUnknownPathsAndMethodsAreProblems(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	tests := map[string]struct {
		method, path string
		status       int
		allow        string
	}{
		"no such path":             {http.MethodGet, "/nothing", http.StatusNotFound, ""},
		"a slash too many":         {http.MethodPost, "/orders/", http.StatusNotFound, ""},
		"a way around":             {http.MethodGet, "/orders/../products", http.StatusNotFound, ""},
		"nothing of operations":    {http.MethodGet, "/metrics", http.StatusNotFound, ""},
		"no list of all orders":    {http.MethodGet, "/orders", http.StatusMethodNotAllowed, "POST"},
		"orders are not deleted":   {http.MethodDelete, "/orders/1", http.StatusMethodNotAllowed, "GET, HEAD"},
		"products are not posted":  {http.MethodPost, "/products", http.StatusMethodNotAllowed, "GET, HEAD"},
		"an unknown method":        {"BREW", "/orders", http.StatusMethodNotAllowed, "POST"},
		"a tunnel to the products": {http.MethodTrace, "/products", http.StatusMethodNotAllowed, "GET, HEAD"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := b.in(t).send(test.method, test.path, "")
			got.isProblem(t, test.status)
			if allow := got.header.Get("Allow"); allow != test.allow {
				t.Errorf("Allow is %q, want %q", allow, test.allow)
			}
		})
	}
}

func TestAHeadIsAGetWithoutItsBody(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	before := b.series()
	for path, status := range map[string]int{
		"/products": http.StatusOK, "/openapi.yaml": http.StatusOK, "/orders/" + b.place(oneMug).ID.String(): http.StatusOK,
		"/orders/none": http.StatusNotFound, "/orders": http.StatusMethodNotAllowed,
	} {
		get, head := b.get(path), b.send(http.MethodHead, path, "")
		if head.status != status || get.status != status || head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
			t.Errorf("%s: HEAD %+v, GET %+v, want both %d", path, head, get, status)
		}
	}
	if after := b.series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
}

func TestAPanicIsAnInternalServerError(t *testing.T) {
	t.Parallel()
	b := newFixtureOn(t, nil) // without a database, each query panics
	for range 2 {
		b.get("/products").isProblem(t, http.StatusInternalServerError)
	}
	if counted := b.histogram(map[string]string{"method": "GET", "route": "/products", "code": "5xx"}); counted.GetSampleCount() != 2 {
		t.Errorf("counted %d times", counted.GetSampleCount())
	}
}

// TestAClientThatDisconnectsIsNotAServerError disconnects during the commit. There is no network:
// over one, the server may answer before it notices.
func TestAClientThatDisconnectsIsNotAServerError(t *testing.T) {
	t.Parallel()
	db, url := postgrestest.Migrated(t, schema)
	b := newFixtureOn(t, db)
	held := servers.HoldCommits(t, url, "orders")
	ctx, hangUp := context.WithCancel(t.Context())
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", strings.NewReader(oneMug))
	request.Header.Set("Content-Type", "application/json")
	ended := make(chan reply)
	go func() { ended <- answerOf(b.api.Config.Handler, request) }()
	held.Await()
	hangUp()
	if status := (<-ended).status; status/100 != 4 {
		t.Errorf("the status is %d", status)
	}
	held.Release() // not before: the answer to the COMMIT could be faster than the driver
	for code, want := range map[string]uint64{"4xx": 1, "5xx": 0} {
		if got := b.histogram(map[string]string{"method": "POST", "route": "/orders", "code": code}).GetSampleCount(); got != want {
			t.Errorf("%d are counted as %s, want %d", got, code, want)
		}
	}
}

func (r reply) isUnavailable(t *testing.T) {
	t.Helper()
	r.isProblem(t, http.StatusServiceUnavailable)
	if after := r.header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After is %q, want 1 second", after)
	}
}

// TestWithoutADatabaseTheAPIAnswers503, and afterwards it works as before. Package postgres tests which
// other errors are the database's, and that a database that hangs is one of them.
func TestWithoutADatabaseTheAPIAnswers503(t *testing.T) {
	t.Parallel()
	_, direct := postgrestest.Migrated(t, schema)
	proxy, through := servers.ProxyFor(t, direct)
	db, err := postgres.Open(t.Context(), through, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	b := newFixtureOn(t, db)
	b.place(oneMug)
	proxy.Refuse(true)
	proxy.Cut()
	b.post(oneMug).isUnavailable(t)
	b.get("/orders/0f1e2d3c-4b5a-4678-9abc-def012345678").isUnavailable(t)
	b.get("/products").isUnavailable(t)
	proxy.Refuse(false)
	b.place(oneMug)
	if n := b.countRows(); n != 4 {
		t.Errorf("%d rows of two orders and their events", n)
	}
}
