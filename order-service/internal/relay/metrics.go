package relay

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/telemetry"
)

// Metrics are what a relay counts. Every series is there from the start, at zero:
// an alert on an increase would otherwise miss the first one.
type Metrics struct {
	published, failed prometheus.Counter
	retries           prometheus.Counter
	exhaustions       prometheus.Counter
	unroutable        prometheus.Counter
	leaseLost         prometheus.Counter
	publishErrors     prometheus.Counter
	copied, notCopied prometheus.Counter
	latency           prometheus.Histogram
	up                prometheus.Gauge
}

// NewMetrics registers the relay's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	make := promauto.With(registry)
	events := make.NewCounterVec(prometheus.CounterOpts{
		Name: "outbox_events_total", Help: "Events that left the relay's hands, by what they became.",
	}, []string{"status"})
	counter := func(name, help string) prometheus.Counter {
		return make.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Metrics{
		published:   events.WithLabelValues("published"),
		failed:      events.WithLabelValues("failed"),
		retries:     counter("outbox_retries_total", "Attempts that were an event's own fault and are followed by another."),
		exhaustions: counter("outbox_retry_exhaustions_total", "Events that failed after their last attempt."),
		unroutable:  counter("outbox_unroutable_total", "Publishes that the broker returned because no queue is bound."),
		leaseLost:   counter("outbox_lease_lost_total", "Events whose lease had gone to somebody else when their outcome was to be written."),
		publishErrors: counter("outbox_publish_errors_total",
			"Publishes whose outcome is unknown: the channel or the connection closed, or no confirm came in time. They are done again."),
		copied:    counter("outbox_dlq_published_total", "Failed events of which a copy is in the dead-letter queue."),
		notCopied: counter("outbox_dlq_publish_failed_total", "Failed events of which no copy could be made. The events themselves stay in the outbox."),
		latency: make.NewHistogram(prometheus.HistogramOpts{
			Name: "outbox_publish_latency_seconds", Help: "From the commit of an event to its confirm.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12), // 1 ms to 24 s; longer is an outage
		}),
		up: make.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_relay_up", Help: "1 while this relay has a session with the broker.",
		}),
	}
}

// count adds a batch; what fails is counted when it is written. One exemplar for each
// batch is enough: it is the oldest event's trace.
func (m *Metrics) count(b batch, results []rabbitmq.Result, sinceClaim time.Duration) {
	observe := func(ctx context.Context, latency float64) { telemetry.Observe(ctx, m.latency, latency) }
	for i, e := range b.events {
		switch results[i].Outcome {
		case rabbitmq.Confirmed:
			m.published.Inc()
			observe(b.contexts[i], e.Age+sinceClaim.Seconds())
			observe = func(_ context.Context, latency float64) { m.latency.Observe(latency) }
		case rabbitmq.Returned:
			m.unroutable.Inc()
		case rabbitmq.Unknown:
			m.publishErrors.Inc()
		default: // counted where it is written
		}
	}
}
