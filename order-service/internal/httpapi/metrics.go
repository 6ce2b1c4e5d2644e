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
type Metrics struct {
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

// NewMetrics registers the API's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	make := promauto.With(registry)
	m := &Metrics{
		duration: make.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "From the first byte of a request to the last of its answer, by route and class of the status code.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10), // 1 ms to 3.8 s; maxDuration is 5 s
		}, []string{"method", "route", "code"}),
		refused: make.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_refused_total", Help: "Requests that were refused because too many came: HTTP_MAX_IN_FLIGHT or HTTP_RATE_LIMIT. Among the 5xx, a full service and a database that is away look alike.",
		}, []string{"by"}),
	}
	for _, limit := range []string{byInFlight, byRate} {
		m.refused.WithLabelValues(limit)
	}
	return m
}

func (m *Metrics) refuse(by string) { m.refused.WithLabelValues(by).Inc() }

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
		next.ServeHTTP(answer, r)
		m.observe(r, answer.Status(), time.Since(began))
	})
}

func (m *Metrics) observe(r *http.Request, status int, duration time.Duration) {
	matched := chi.RouteContext(r.Context())
	method, route := matched.RouteMethod, matched.RoutePattern() // of a HEAD, the GET that it is routed as
	if route == "" {
		method, route = noRoute, noRoute // anybody can invent a method, too
	}
	telemetry.Observe(r.Context(), m.duration.WithLabelValues(method, route, codeClass(status)), duration.Seconds())
}

func codeClass(status int) string { return fmt.Sprintf("%dxx", status/100) }
