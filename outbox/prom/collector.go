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
	// Failed is how often handling a message has failed, and CopyFailures how often a copy for the
	// retries or the dead letters. CopiesWaiting is how many copies are not made yet.
	Failed() uint64
	CopyFailures() uint64
	CopiesWaiting() int
	// Overdue is how long ago the handler should have returned, if it has not. Otherwise it is 0.
	Overdue() time.Duration
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
	consumerMessages = prometheus.NewDesc("consumer_messages_total", "Deliveries that are done, by their outcome.", []string{"outcome"}, nil)
	consumerFailed   = prometheus.NewDesc("consumer_processing_failed_total", "How often handling a message has failed.", nil, nil)
	copyFailures     = prometheus.NewDesc("consumer_copy_failures_total", "Failed attempts to copy a message to a retry queue or to the dead letters. It is tried again.", nil, nil)
	copiesWaiting    = prometheus.NewDesc("consumer_copies_waiting", "Messages that wait for their copy.", nil, nil)
	handlerOverdue   = prometheus.NewDesc("consumer_handler_overdue_seconds", "Seconds since the handler should have returned, if it has not. Otherwise 0.", nil, nil)
	consumerUp       = prometheus.NewDesc("consumer_up", "1 while this consumer takes messages.", nil, nil)
)

// Describe sends the descriptions of the metrics.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	if c.relay != nil {
		for _, m := range append(relayMetrics(outbox.Stats{}), tableMetrics(outbox.Backlog{})...) {
			descs <- m.Desc()
		}
	}
	if c.consumer != nil {
		send(descs, consumerMessages, consumerFailed, copyFailures, copiesWaiting, handlerOverdue, consumerUp)
	}
}

// Collect sends the metrics.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	if c.relay != nil {
		send(metrics, relayMetrics(c.relay.Stats())...)
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		if b, err := c.relay.Backlog(ctx); err == nil { // otherwise the missing metrics say it
			send(metrics, tableMetrics(b)...)
		}
	}
	if c.consumer != nil {
		outcomes, up := c.consumer.Stats()
		for outcome, n := range outcomes {
			metrics <- prometheus.MustNewConstMetric(consumerMessages, prometheus.CounterValue, float64(n), outcome)
		}
		metrics <- prometheus.MustNewConstMetric(consumerFailed, prometheus.CounterValue, float64(c.consumer.Failed()))
		metrics <- prometheus.MustNewConstMetric(copyFailures, prometheus.CounterValue, float64(c.consumer.CopyFailures()))
		metrics <- prometheus.MustNewConstMetric(copiesWaiting, prometheus.GaugeValue, float64(c.consumer.CopiesWaiting()))
		metrics <- prometheus.MustNewConstMetric(handlerOverdue, prometheus.GaugeValue, c.consumer.Overdue().Seconds())
		metrics <- prometheus.MustNewConstMetric(consumerUp, prometheus.GaugeValue, number(up))
	}
}

func send[T any](to chan<- T, all ...T) {
	for _, one := range all {
		to <- one
	}
}
