package prom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/outbox"
)

// Consumer has the numbers of a consumer. A *rabbitmq.Consumer is one.
type Consumer interface {
	// Stats returns how many deliveries had each outcome, and whether messages are taken now.
	Stats() (outcomes map[string]uint64, up bool)
}

// Collector reports the numbers of a relay and of a consumer. Either may be nil, but a
// consumer that is a nil pointer is not nil. At each scrape it counts the backlog in the database,
// for at most 2.5 s. While the database is not reachable, the metrics of the backlog are missing.
//
// A registry takes one relay and one consumer. For more, add a label to each with
// prometheus.WrapRegistererWith.
func Collector(relay *outbox.Relay, consumer Consumer) prometheus.Collector {
	return &collector{relay: relay, consumer: consumer}
}

type collector struct {
	relay    *outbox.Relay
	consumer Consumer
}

// scrapeTimeout is shorter than the time that Prometheus usually waits for a scrape.
const scrapeTimeout = 2500 * time.Millisecond

var (
	relayDescs = []*prometheus.Desc{
		events, retries, exhaustions, refused, unroutable, leaseLost, publishErrors, deadLettered, deadLetterFailed,
		latency, claims, marks, up, listening, refusesAll, backlog, unfinished, unroutableEvents, oldestDue, slotAge,
	}
	consumerDescs = []*prometheus.Desc{consumerMessages, consumerUp}
)

// Describe sends the descriptions of the metrics.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	if c.relay != nil {
		send(descs, relayDescs...)
	}
	if c.consumer != nil {
		send(descs, consumerDescs...)
	}
}

// Collect sends the metrics.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	if c.relay != nil {
		collectRelay(metrics, c.relay.Stats())
		c.collectBacklog(metrics)
	}
	if c.consumer != nil {
		outcomes, isUp := c.consumer.Stats()
		for outcome, n := range outcomes {
			send(metrics, counter(consumerMessages, n, outcome))
		}
		send(metrics, gauge(consumerUp, number(isUp)))
	}
}

func collectRelay(metrics chan<- prometheus.Metric, s outbox.Stats) {
	send(metrics,
		counter(events, s.Published, "published"), counter(events, s.Failed, "failed"), counter(events, s.Overtaken, "overtaken"),
		counter(retries, s.Retries), counter(exhaustions, s.RetryExhaustions),
		counter(refused, s.Refused), counter(unroutable, s.Unroutable),
		counter(leaseLost, s.LeaseLost), counter(publishErrors, s.PublishErrors),
		counter(deadLettered, s.DeadLettered), counter(deadLetterFailed, s.DeadLettersFailed),
		histogram(latency, s.Latency), timing(claims, s.Claims), timing(marks, s.Marks),
		gauge(up, number(s.Up)), gauge(listening, number(s.Listening)), gauge(refusesAll, number(s.RefusesAll)),
	)
}

func (c *collector) collectBacklog(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	b, err := c.relay.Backlog(ctx)
	if err != nil {
		return // the missing metrics say it
	}
	send(metrics,
		gauge(backlog, float64(b.Pending+b.InProgress+b.Failed)),
		gauge(unfinished, float64(b.Pending), "pending"),
		gauge(unfinished, float64(b.InProgress), "in_progress"),
		gauge(unfinished, float64(b.Failed), "failed"),
		gauge(unroutableEvents, float64(b.Unroutable)),
		gauge(oldestDue, b.OldestDue),
		gauge(slotAge, b.SlotAge),
	)
}

func send[T any](to chan<- T, all ...T) {
	for _, one := range all {
		to <- one
	}
}

func counter(desc *prometheus.Desc, value uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// timing is a summary without quantiles.
func timing(desc *prometheus.Desc, t outbox.Timing) prometheus.Metric {
	return prometheus.MustNewConstSummary(desc, t.Count, t.Seconds, nil)
}

// histogram has the exemplars too: the points on a dashboard that open a trace.
func histogram(desc *prometheus.Desc, h outbox.Histogram) prometheus.Metric {
	buckets, count := map[float64]uint64{}, uint64(0)
	for i, n := range h.Counts {
		if count += n; i < len(h.Bounds) {
			buckets[h.Bounds[i]] = count // Prometheus counts all values up to the bound
		}
	}
	metric := prometheus.MustNewConstHistogram(desc, count, h.Sum, buckets)
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
