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
		Name: "order_to_notification_seconds", Help: "From the commit of an order's event to the note that its e-mail was sent.",
		Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 14), // 2 ms to 5 minutes: retries take as long
	})}
}

// observe adds what is known.
func (m *Metrics) observe(ctx context.Context, seconds float64) {
	if !math.IsNaN(seconds) {
		telemetry.Observe(ctx, m.latency, seconds)
	}
}
