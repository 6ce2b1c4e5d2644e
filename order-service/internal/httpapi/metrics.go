package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"example.com/transactional-outbox/internal/telemetry"
)

// Metrics are what the API counts.
type Metrics struct{ duration *prometheus.HistogramVec }

// NewMetrics registers the API's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	return &Metrics{duration: promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "http_request_duration_seconds", Help: "From the first byte of a request to the last of its answer, by route and class of the status code.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10), // 1 ms to 3.8 s; maxDuration is 5 s
	}, []string{"method", "route", "code"})}
}

// noRoute is the label of every request that no route takes: a thousand random paths
// make one series.
const noRoute = "none"

// startAtZero makes the series of every route, so that the first error is an increase.
func (m *Metrics) startAtZero(routes chi.Routes) {
	register := func(method, route string) {
		for _, class := range []int{2, 4, 5} {
			m.duration.WithLabelValues(method, route, codeClass(class*100))
		}
	}
	register(noRoute, noRoute)
	// The function returns no error, so Walk returns none.
	_ = chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		register(method, route)
		return nil
	})
}

func (m *Metrics) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answer := time.Now(), middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		status := http.StatusInternalServerError // of a panic, which goes on from here
		defer func() { m.observe(r, status, time.Since(began)) }()
		next.ServeHTTP(answer, r)
		status = answer.Status()
	})
}

func (m *Metrics) observe(r *http.Request, status int, duration time.Duration) {
	method, route := r.Method, chi.RouteContext(r.Context()).RoutePattern()
	if route == "" {
		method, route = noRoute, noRoute // anybody can invent a method, too
	}
	telemetry.Observe(r.Context(), m.duration.WithLabelValues(method, route, codeClass(status)), duration.Seconds())
}

func codeClass(status int) string { return fmt.Sprintf("%dxx", status/100) }
