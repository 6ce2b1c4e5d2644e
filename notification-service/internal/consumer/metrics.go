package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// outcome is what became of a delivery.
type outcome string

const (
	success      outcome = "success"   // the message has had its effect
	duplicate    outcome = "duplicate" // it had had its effect before
	retried      outcome = "retry"     // a copy waits in a retry queue
	deadLettered outcome = "dlq"       // it is a dead letter
)

// Metrics are what a consumer counts. Every series exists from the start, at zero. Otherwise an
// alert on an increase would miss the first one.
type Metrics struct {
	messages             map[outcome]prometheus.Counter
	failed               prometheus.Counter
	retries, exhaustions prometheus.Counter
	dlqCopies            prometheus.Counter
	dlqCopyFailures      prometheus.Counter
	copyFailures         map[bool]prometheus.Counter // by whether it was for the dead letters
	copiesWaiting        map[bool]prometheus.Gauge
	givenUp              prometheus.Counter
	duplicates           prometheus.Counter
	gateClosed           *prometheus.GaugeVec
	up                   prometheus.Gauge
	registry             prometheus.Registerer
}

// NewMetrics registers the consumer's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	messages := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "consumer_messages_total", Help: "Deliveries that are done, by their outcome.",
	}, []string{"outcome"})
	m := &Metrics{
		messages:        map[outcome]prometheus.Counter{},
		failed:          counter("consumer_processing_failed_total", "Attempts to process a message that failed because of the message."),
		retries:         counter("consumer_retries_total", "Messages that failed and are tried again from a retry queue."),
		exhaustions:     counter("consumer_retry_exhaustions_total", "Messages that became dead letters after their last retry."),
		dlqCopies:       counter("consumer_dlq_published_total", "Messages with a confirmed copy in the dead-letter queue."),
		dlqCopyFailures: counter("consumer_dlq_publish_failed_total", "Failed attempts to copy a message to the dead-letter queue. The message is held, and the copy is tried again."),
		copyFailures:    map[bool]prometheus.Counter{}, copiesWaiting: map[bool]prometheus.Gauge{},
		givenUp:    counter("consumer_copies_given_up_total", "Messages that went back to the queue, because the broker took no copy of them for too long."),
		duplicates: counter("consumer_duplicates_total", "Deliveries of messages that had already had their effect."),
		gateClosed: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "consumer_gate_closed", Help: "1 while messages wait because this dependency is unavailable.",
		}, []string{"dependency"}),
		up: factory.NewGauge(prometheus.GaugeOpts{
			Name: "consumer_up", Help: "1 while this consumer has a session with the broker.",
		}),
	}
	for _, o := range []outcome{success, duplicate, retried, deadLettered} {
		m.messages[o] = messages.WithLabelValues(string(o))
	}
	failures := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "consumer_copy_failures_total", Help: "Failed attempts to copy a message, by the target of the copy. The message is held, and the copy is tried again.",
	}, []string{"to"})
	waiting := factory.NewGaugeVec(prometheus.GaugeOpts{
		Name: "consumer_copies_waiting", Help: "Messages that wait for their copy, by the target of the copy.",
	}, []string{"to"})
	for toDeadLetters, to := range map[bool]string{true: "dlq", false: "retry"} {
		m.copyFailures[toDeadLetters] = failures.WithLabelValues(to)
		m.copiesWaiting[toDeadLetters] = waiting.WithLabelValues(to)
	}
	m.registry = registry
	return m
}

// registerOldestAge registers the age of the oldest message in flight.
func (m *Metrics) registerOldestAge(age func() time.Duration) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "consumer_oldest_message_age_seconds",
		Help: "Time since the commit of the oldest event in flight. 0: none is in flight.",
	}, func() float64 { return age().Seconds() })
}

func (m *Metrics) count(o outcome) {
	m.messages[o].Inc()
	if o == duplicate {
		m.duplicates.Inc()
	}
}

// copyWaits counts a message that waits for its copy, until the returned function is called.
func (m *Metrics) copyWaits(toDeadLetters bool) (ended func()) {
	m.copiesWaiting[toDeadLetters].Inc()
	return m.copiesWaiting[toDeadLetters].Dec
}

func (m *Metrics) copyPublished(toDeadLetters bool) {
	if toDeadLetters {
		m.dlqCopies.Inc()
	}
}

func (m *Metrics) copyFailed(toDeadLetters bool) {
	m.copyFailures[toDeadLetters].Inc()
	if toDeadLetters {
		m.dlqCopyFailures.Inc()
	}
}
