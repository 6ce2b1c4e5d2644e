package notification

import (
	"context"
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"example.com/transactional-outbox/internal/telemetry"
)

// Metrics are what the notifications measure.
type Metrics struct{ latency prometheus.Histogram }

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	return &Metrics{latency: promauto.With(registry).NewHistogram(prometheus.HistogramOpts{
		Name: "order_to_notification_seconds", Help: "Time from the commit of an order's event to the mark that its e-mail is sent.",
		Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 14), // 2 ms to 5 minutes: retries take as long
	})}
}

// observe adds a measurement, unless it is unknown.
func (m *Metrics) observe(ctx context.Context, seconds float64) {
	if !math.IsNaN(seconds) {
		telemetry.Observe(ctx, m.latency, seconds)
	}
}
