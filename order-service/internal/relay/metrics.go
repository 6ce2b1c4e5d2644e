package relay

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/internal/telemetry"
)

// Metrics are the relay's metrics. Every series starts at zero. Otherwise an alert on an
// increase would miss the first one.
type Metrics struct {
	published, failed prometheus.Counter
	retries           prometheus.Counter
	exhaustions       prometheus.Counter
	unroutable        prometheus.Counter
	leaseLost         prometheus.Counter
	publishErrors     prometheus.Counter
	deadLettered      prometheus.Counter
	deadLetterFailed  prometheus.Counter
	latency           prometheus.Histogram
	up                prometheus.Gauge
	refused           prometheus.Counter
	refusesAll        prometheus.Gauge
}

// NewMetrics registers the relay's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	events := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "outbox_events_total", Help: "Events that the relay finished, by their status.",
	}, []string{"status"})
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Metrics{
		published:   events.WithLabelValues("published"),
		failed:      events.WithLabelValues("failed"),
		retries:     counter("outbox_retries_total", "Attempts that a queue refused and that are followed by another one."),
		exhaustions: counter("outbox_retry_exhaustions_total", "Events that failed after their last attempt."),
		refused:     counter("outbox_refused_total", "Publishes that a queue refused. Only those of events that it refuses while it takes others spend an attempt."),
		unroutable:  counter("outbox_unroutable_total", "Publishes that the broker returned because no queue is bound."),
		leaseLost:   counter("outbox_lease_lost_total", "Events that another relay had claimed before their outcome was written."),
		publishErrors: counter("outbox_publish_errors_total",
			"Publishes with an unknown outcome: the channel or the connection closed, or no confirm came in time. The events are published again."),
		deadLettered:     counter("outbox_dlq_published_total", "Failed events that have a copy in the dead-letter queue."),
		deadLetterFailed: counter("outbox_dlq_publish_failed_total", "Failed events that have no copy in the dead-letter queue, because the broker did not take it. The events themselves stay in the outbox."),
		latency: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "outbox_publish_latency_seconds", Help: "Time from the commit of an event to its confirm.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12), // 1 ms to 24 s; longer is an outage
		}),
		up: factory.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_relay_up", Help: "1 while this relay has a session with the broker.",
		}),
		refusesAll: factory.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_broker_refuses_all", Help: "1 while the broker refuses every event that this relay publishes. It then only probes, and spends no attempts.",
		}),
	}
}

// countBatch counts the outcomes of a batch. Only the latency of its oldest event gets an
// exemplar: one for each batch is enough.
func (m *Metrics) countBatch(b batch, results []publish.Result, sinceClaim time.Duration) {
	observe := func(ctx context.Context, latency float64) { telemetry.Observe(ctx, m.latency, latency) }
	for i, e := range b.events {
		switch results[i].Outcome {
		case publish.Confirmed:
			m.published.Inc()
			observe(b.contexts[i], e.Age+sinceClaim.Seconds())
			observe = func(_ context.Context, latency float64) { m.latency.Observe(latency) }
		case publish.Returned:
			m.unroutable.Inc()
		case publish.Refused:
			m.refused.Inc()
		case publish.Unknown:
			m.publishErrors.Inc()
		default: // counted when it is written to the outbox
		}
	}
}
