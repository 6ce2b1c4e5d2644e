package httpserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is something that a service needs in order to serve.
type Check struct {
	Name  string // fixed, such as "the database"
	Ready func(context.Context) error
}

// Ops answers /livez, /readyz and /metrics. /livez says that the process runs. /readyz is 200 if
// all checks return nil, otherwise 503 with the names of those that do not. Everything else is the
// page's. Use a separate listener: these endpoints are not for the public.
func Ops(checks []Check, metrics *prometheus.Registry, page http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.Handle("GET /readyz", &readiness{checks: checks, logged: map[string]time.Time{}})
	// OpenMetrics carries exemplars; the older format drops them.
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.Handle("/", page)
	return mux
}

// readiness answers /readyz. Who asks has no login, and an error may name users and hosts. So the
// answer has only names of checks, and the log has the errors.
type readiness struct {
	checks []Check
	mu     sync.Mutex
	logged map[string]time.Time // when the error of a check was logged last
}

// ServeHTTP runs all checks.
func (o *readiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	var failed []string
	for _, c := range o.checks {
		if err := c.Ready(ctx); err != nil {
			failed = append(failed, c.Name)
			o.log(ctx, c.Name, err)
		}
	}
	if failed != nil {
		http.Error(w, "not ready: "+strings.Join(failed, ", "), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// log logs why a check fails, at most every 10 s.
func (o *readiness) log(ctx context.Context, check string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.logged[check]) >= 10*time.Second {
		o.logged[check] = time.Now()
		slog.WarnContext(ctx, "not ready", "check", check, "error", err)
	}
}

// CheckHealth calls /readyz of the service at address. It is the health check of an image that
// has no shell.
func CheckHealth(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	// A transport without a proxy: the environment of a container may name one.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("%s: %s", response.Status, reason)
	}
	return nil
}
