package httpserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/test/env/servers"
)

func ready(ctx context.Context) error {
	if _, limited := ctx.Deadline(); !limited {
		return errors.New("this check has no deadline")
	}
	return nil
}

func notReady(context.Context) error {
	return errors.New("user=shop host=10.0.0.7: connection refused")
}

// serveOps serves Ops, with this check of the database and one that succeeds, and returns its URL.
func serveOps(t *testing.T, database func(context.Context) error, metrics *prometheus.Registry) string {
	t.Helper()
	checks := []httpserver.Check{{Name: "the broker", Ready: ready}, {Name: "the database", Ready: database}}
	server := httptest.NewServer(httpserver.Ops(checks, metrics, hello))
	t.Cleanup(server.Close)
	return server.URL
}

func TestOpsEndpoints(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ready  func(context.Context) error
		path   string
		status int
		body   string
	}{
		"alive":               {ready, "/livez", http.StatusOK, "ok\n"},
		"alive but not ready": {notReady, "/livez", http.StatusOK, "ok\n"},
		"ready":               {ready, "/readyz", http.StatusOK, "ok\n"},
		"not ready":           {notReady, "/readyz", http.StatusServiceUnavailable, "not ready: the database\n"},
		"all else":            {ready, "/", http.StatusOK, "hello"},
	}
	for name, test := range tests {
		status, body, err := get(t, serveOps(t, test.ready, prometheus.NewRegistry())+test.path)
		if err != nil || status != test.status || body != test.body {
			t.Errorf("%s: got %d %q, error %v; want %d %q", name, status, body, err, test.status, test.body)
		}
	}
}

func TestMetricsAreThoseOfTheRegistryWithExemplars(t *testing.T) {
	t.Parallel()
	orders := prometheus.NewCounter(prometheus.CounterOpts{Name: "orders_total", Help: "Orders."})
	orders.(prometheus.ExemplarAdder).AddWithExemplar(7, prometheus.Labels{"trace_id": "abc"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(orders)
	url := serveOps(t, ready, registry) + "/metrics"

	tests := map[string]string{
		"":                             "orders_total 7\n",
		"application/openmetrics-text": `orders_total 7.0 # {trace_id="abc"} 7.0`,
	}
	for accept, want := range tests {
		status, body, err := get(t, url, "Accept", accept)
		if err != nil || status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("Accept %q: got %d, error %v, without %q:\n%s", accept, status, err, want, body)
		}
		if strings.Contains(body, "go_goroutines") {
			t.Errorf("Accept %q: numbers of another registry:\n%s", accept, body)
		}
	}
}

func TestCheckHealthReturnsWhyAServiceIsNotReady(t *testing.T) {
	t.Parallel()
	address := func(url string) string { return strings.TrimPrefix(url, "http://") }
	if err := httpserver.CheckHealth(t.Context(), address(serveOps(t, ready, prometheus.NewRegistry()))); err != nil {
		t.Errorf("a service that is ready: %v", err)
	}
	err := httpserver.CheckHealth(t.Context(), address(serveOps(t, notReady, prometheus.NewRegistry())))
	if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "not ready: the database") {
		t.Errorf("a service that is not ready: %v", err)
	}
	if err := httpserver.CheckHealth(t.Context(), servers.FreeAddress(t)); err == nil {
		t.Error("no error although there is no service")
	}
}
