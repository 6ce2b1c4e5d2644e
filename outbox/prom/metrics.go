package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/outbox"
)

// relayMetrics has every series from the start, at zero. Otherwise an alert on an increase would
// miss the first one.
func relayMetrics(s outbox.Stats) []prometheus.Metric {
	const finished = "Events that the relay finished, by their status."
	return []prometheus.Metric{
		counter("outbox_events_total", finished, s.Published, "published"),
		counter("outbox_events_total", finished, s.Failed, "failed"),
		counter("outbox_events_total", finished, s.Superseded, "superseded"),
		counter("outbox_retries_total", "Publishes that were refused or had no answer, and are followed by another attempt.", s.Retries),
		counter("outbox_retry_exhaustions_total", "Events that failed because the destination refused them for too long.", s.RetryExhaustions),
		counter("outbox_refused_total", "Publishes that the destination refused.", s.Refused),
		counter("outbox_unroutable_total", "Publishes that the broker returned because no queue is bound.", s.Unroutable),
		counter("outbox_lease_lost_total", "Events that another relay had claimed before their outcome was written.", s.LeaseLost),
		counter("outbox_publish_errors_total", "Publishes with an unknown outcome. The events are published again.", s.PublishErrors),
		counter("outbox_deletion_errors_total", "How often this relay could not delete old events. It tries each minute.", s.DeletionErrors),
		histogram("outbox_publish_latency_seconds", "Seconds from the begin of the transaction that appended the event to its confirm.", s.Latency),
		timing("outbox_claim_seconds", "Seconds that the claims took: they find the due events and read them. Only those that succeeded count.", s.Claims),
		timing("outbox_mark_seconds", "Seconds that it took to record what is published. Only what succeeded counts.", s.Marks),
		gauge("outbox_relay_up", "1 while this relay has a session with the broker.", number(s.Up)),
		gauge("outbox_no_answer_seconds", "Seconds without an answer from a destination that answers one by one, while messages wait; "+
			"or since it got a message whose call is overdue. 0: it answers.", s.NoAnswer.Seconds()),
		gauge("outbox_relay_listening", "1 while this relay is notified of what other processes commit. Otherwise its poll finds it.", number(s.Listening)),
	}
}

func tableMetrics(b outbox.Backlog) []prometheus.Metric {
	const everywhere = " Every replica reports the same table: take the max, not the sum."
	const unfinished = "Unfinished events, by status." + everywhere
	return []prometheus.Metric{
		gauge("outbox_backlog", "Events that are not published yet; above 200,000 an estimate."+everywhere, float64(b.Pending+b.InProgress+b.Failed)),
		gauge("outbox_events", unfinished, float64(b.Pending), "pending"),
		gauge("outbox_events", unfinished, float64(b.InProgress), "in_progress"),
		gauge("outbox_events", unfinished, float64(b.Failed), "failed"),
		gauge("outbox_events_paused", "Pending events whose topic is paused."+everywhere, float64(b.Paused)),
		gauge("outbox_topics_paused", "Topics that a relay or an operator has paused."+everywhere, float64(b.PausedTopics)),
		gauge("outbox_oldest_due_age_seconds", "Seconds since the oldest due event became due."+everywhere, b.OldestDue),
		gauge("outbox_oldest_refused_age_seconds", "Seconds for which a pending event has been refused."+everywhere, b.OldestRefused),
		gauge("outbox_oldest_unfinished_age_seconds", "Seconds since the oldest event was due, or replayed, that is not done and has "+
			"not failed: it may be in flight, put off, paused, or wait for an older one."+everywhere, b.OldestUnfinished),
	}
}

func counter(name, help string, value uint64, status ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(describe(name, help, status), prometheus.CounterValue, float64(value), status...)
}

func gauge(name, help string, value float64, status ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(describe(name, help, status), prometheus.GaugeValue, value, status...)
}

func describe(name, help string, status []string) *prometheus.Desc {
	if len(status) == 0 {
		return prometheus.NewDesc(name, help, nil, nil)
	}
	return prometheus.NewDesc(name, help, []string{"status"}, nil)
}

// timing is a summary without quantiles.
func timing(name, help string, t outbox.Timing) prometheus.Metric {
	return prometheus.MustNewConstSummary(prometheus.NewDesc(name, help, nil, nil), t.Count, t.Seconds, nil)
}

// histogram has the exemplars too: the points on a dashboard that open a trace.
func histogram(name, help string, h outbox.Histogram) prometheus.Metric {
	buckets, count := map[float64]uint64{}, uint64(0)
	for i, n := range h.Counts {
		if count += n; i < len(h.Bounds) {
			buckets[h.Bounds[i]] = count // Prometheus counts all values up to the bound
		}
	}
	metric := prometheus.MustNewConstHistogram(prometheus.NewDesc(name, help, nil, nil), count, h.Sum, buckets)
	var exemplars []prometheus.Exemplar
	for _, e := range h.Exemplars {
		exemplars = append(exemplars, prometheus.Exemplar{
			Value: e.Value, Timestamp: e.At, Labels: prometheus.Labels{"trace_id": e.TraceID},
		})
	}
	if len(exemplars) == 0 {
		return metric
	}
	return prometheus.MustNewMetricWithExemplars(metric, exemplars...)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
