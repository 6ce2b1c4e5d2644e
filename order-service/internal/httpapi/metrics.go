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

// Metrics are the API's metrics.
type Metrics struct {
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

// NewMetrics registers the API's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	m := &Metrics{
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "Time from the first byte of a request to the last byte of its answer, by route and class of the status code.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10), // 1 ms to 3.8 s; maxDuration is 5 s
		}, []string{"method", "route", "code"}),
		refused: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_refused_total", Help: "Requests refused because there were too many, by the limit: HTTP_MAX_IN_FLIGHT or HTTP_RATE_LIMIT. The status code does not distinguish a full service from a database that is unavailable.",
		}, []string{"by"}),
	}
	for _, limit := range []string{refusedInFlight, refusedRate} {
		m.refused.WithLabelValues(limit)
	}
	return m
}

func (m *Metrics) countRefusal(by string) { m.refused.WithLabelValues(by).Inc() }

// noRoute is the label of every request without a route. So a thousand random paths make only
// one series.
const noRoute = "none"

// startAtZero creates the series of every route, so that the first error is an increase.
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
		start, answer := time.Now(), middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(answer, r)
		m.observe(r, answer.Status(), time.Since(start))
	})
}

func (m *Metrics) observe(r *http.Request, status int, duration time.Duration) {
	matched := chi.RouteContext(r.Context())
	method, route := matched.RouteMethod, matched.RoutePattern() // a HEAD is routed as a GET
	if route == "" {
		method, route = noRoute, noRoute // a client can send any method
	}
	telemetry.Observe(r.Context(), m.duration.WithLabelValues(method, route, codeClass(status)), duration.Seconds())
}

func codeClass(status int) string { return fmt.Sprintf("%dxx", status/100) }
