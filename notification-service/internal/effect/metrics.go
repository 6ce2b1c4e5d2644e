package effect

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"example.com/transactional-outbox/internal/telemetry"
)

// Metrics are what the effects count. The consumer and the relay have metrics of their own.
type Metrics struct {
	emails, superseded, duplicates prometheus.Counter
	latency                        prometheus.Histogram
}

// NewMetrics registers them. Every series exists from the start, at zero. Otherwise an alert on an
// increase would miss the first one.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	notifications := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "notifications_total", Help: "Messages that came for the first time: with an e-mail, or superseded by a newer event of their order.",
	}, []string{"outcome"})
	return &Metrics{
		emails: notifications.WithLabelValues("email"), superseded: notifications.WithLabelValues("superseded"),
		duplicates: factory.NewCounter(prometheus.CounterOpts{
			Name: "consumer_duplicates_total", Help: "Deliveries of messages that had already had their effect.",
		}),
		latency: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "order_to_notification_seconds",
			Help:    "Time from the commit of an order's event until its e-mail is in the outbox, by the clocks of the two databases.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 14), // 2 ms to 5 minutes
		}),
	}
}

// count counts a batch of this many messages that is committed.
func (m *Metrics) count(ctx context.Context, messages int, r result) {
	m.emails.Add(float64(len(r.emails)))
	m.superseded.Add(float64(r.superseded))
	m.duplicates.Add(float64(messages - len(r.emails) - r.superseded))
	for _, e := range r.emails {
		if !e.OccurredAt.IsZero() {
			telemetry.Observe(e.message.Context(ctx), m.latency, max(0, e.after.Seconds()))
		}
	}
}
