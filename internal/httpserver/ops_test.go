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
	"example.com/transactional-outbox/internal/servertest"
)

func ready(context.Context) error { return nil }

func notReady(context.Context) error { return errors.New("the database is away") }

// operate serves Ops and returns its URL.
func operate(t *testing.T, ready func(context.Context) error, metrics *prometheus.Registry) string {
	t.Helper()
	server := httptest.NewServer(httpserver.Ops(ready, metrics))
	t.Cleanup(server.Close)
	return server.URL
}

func TestTheOperatorsQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ready  func(context.Context) error
		path   string
		status int
		body   string
	}{
		"alive":                       {ready, "/livez", http.StatusOK, "ok\n"},
		"alive, though not ready":     {notReady, "/livez", http.StatusOK, "ok\n"},
		"ready":                       {ready, "/readyz", http.StatusOK, "ok\n"},
		"not ready, and why":          {notReady, "/readyz", http.StatusServiceUnavailable, "not ready: the database is away\n"},
		"what there is no answer for": {ready, "/debug/pprof/", http.StatusNotFound, "404 page not found\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body, err := get(t, operate(t, test.ready, prometheus.NewRegistry())+test.path)
			if err != nil || status != test.status || body != test.body {
				t.Errorf("got %d %q, error %v; want %d %q", status, body, err, test.status, test.body)
			}
		})
	}
}

func TestReadinessHasLimitedTime(t *testing.T) {
	t.Parallel()
	hanging := func(ctx context.Context) error {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the question has no deadline")
		}
		return ctx.Err()
	}
	if _, _, err := get(t, operate(t, hanging, prometheus.NewRegistry())+"/readyz"); err != nil {
		t.Error(err)
	}
}

func TestMetricsAreThoseOfTheRegistryWithExemplars(t *testing.T) {
	t.Parallel()
	orders := prometheus.NewCounter(prometheus.CounterOpts{Name: "orders_total", Help: "Orders."})
	orders.(prometheus.ExemplarAdder).AddWithExemplar(7, prometheus.Labels{"trace_id": "abc"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(orders)
	url := operate(t, ready, registry) + "/metrics"

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

func TestCheckHealthTellsWhyAServiceIsNotReady(t *testing.T) {
	t.Parallel()
	address := func(url string) string { return strings.TrimPrefix(url, "http://") }
	if err := httpserver.CheckHealth(t.Context(), address(operate(t, ready, prometheus.NewRegistry()))); err != nil {
		t.Errorf("of a service that is ready: %v", err)
	}
	err := httpserver.CheckHealth(t.Context(), address(operate(t, notReady, prometheus.NewRegistry())))
	if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "the database is away") {
		t.Errorf("of a service that is not: %v", err)
	}
	if err := httpserver.CheckHealth(t.Context(), servertest.FreeAddress(t)); err == nil {
		t.Error("of no service: no error")
	}
}
