package httpapi_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/internal/httpapi"
)

// FuzzAPI checks that every request is answered with a success or a 4xx problem, and never with
// a 5xx.
func FuzzAPI(f *testing.F) {
	const uuid = "0f1e2d3c-4b5a-4678-9abc-def012345678"
	for _, seed := range []struct{ method, path, name, value, body string }{
		{"POST", "/orders", "Idempotency-Key", "a-key", oneMug},
		{"POST", "/orders", "Content-Type", "application/json; charset=utf-8", orderWith(`"customer_email":"ada@example.com","customer_id":"` + uuid + `"`)},
		{"POST", "/orders", "Content-Encoding", "gzip", "\x1f\x8b"},
		{"POST", "/orders", "Traceparent", "00-" + strings.Repeat("a", 32) + "-" + strings.Repeat("b", 16) + "-01", `{"product_id":"sku\u0000","quantity":1}`},
		{"GET", "/orders/" + uuid, "Tracestate", "a=b,c=d", ""},
		{"GET", "/orders/%00", "Baggage", "a=%zz;b", ""},
		{"HEAD", "/products?a=%ff", "Accept", "text/html", ""},
		{"POST", "/orders/" + uuid + "/confirm", "X-Forwarded-For", "::1", "{}"},
		{"OPTIONS", "/orders/a%2Fb", "Origin", "null", ""},
		{"BREW", "//openapi.yaml/../", "Content-Length", "-1", ""},
	} {
		f.Add(seed.method, seed.path, seed.name, seed.value, seed.body)
	}
	db, _ := postgrestest.Migrated(f, schema)
	api := newAPI(db, httpapi.Limits{InFlight: 256}, prometheus.NewRegistry())
	f.Fuzz(func(t *testing.T, method, path, name, value, body string) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return // and so does the server
		}
		request := (&http.Request{
			Method: method, URL: target, RequestURI: path, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		}).WithContext(t.Context())
		request.Header.Set(name, value)
		got := answerOf(api, request)
		switch {
		case got.status >= 500:
			t.Errorf("%s %q, %q: %q, body %q: %d %s", method, path, name, value, body, got.status, got.body)
		case got.status >= 400 && got.header.Get("Content-Type") != "application/problem+json":
			t.Errorf("%s %q, %q: %q, body %q: %d %s", method, path, name, value, body, got.status, got.header)
		}
	})
}
