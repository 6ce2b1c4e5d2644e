package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// outcome is what became of a delivery.
type outcome string

const (
	success      outcome = "success"   // its effect is there
	duplicate    outcome = "duplicate" // its effect was there already
	retried      outcome = "retry"     // it waits in a retry queue
	deadLettered outcome = "dlq"       // it is a dead letter
)

// Metrics are what a consumer counts. Every series is there from the start, at zero:
// an alert on an increase would otherwise miss the first one.
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
	make := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return make.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	messages := make.NewCounterVec(prometheus.CounterOpts{
		Name: "consumer_messages_total", Help: "Deliveries that the broker was told the end of, by what became of them.",
	}, []string{"outcome"})
	m := &Metrics{
		messages:        map[outcome]prometheus.Counter{},
		failed:          counter("consumer_processing_failed_total", "Tries that failed by the message's own fault."),
		retries:         counter("consumer_retries_total", "Messages that failed and are tried again from a retry queue."),
		exhaustions:     counter("consumer_retry_exhaustions_total", "Messages that became dead letters after their last retry."),
		dlqCopies:       counter("consumer_dlq_published_total", "Messages of which a confirmed copy is in the dead-letter queue."),
		dlqCopyFailures: counter("consumer_dlq_publish_failed_total", "Attempts at a copy for the dead-letter queue that failed. The message is held, and tried again."),
		copyFailures:    map[bool]prometheus.Counter{}, copiesWaiting: map[bool]prometheus.Gauge{},
		givenUp:    counter("consumer_copies_given_up_total", "Messages that went back to the queue because no copy of them could be made for too long."),
		duplicates: counter("consumer_duplicates_total", "Deliveries whose message had had its effect before."),
		gateClosed: make.NewGaugeVec(prometheus.GaugeOpts{
			Name: "consumer_gate_closed", Help: "1 while messages wait because this is away.",
		}, []string{"dependency"}),
		up: make.NewGauge(prometheus.GaugeOpts{
			Name: "consumer_up", Help: "1 while this consumer has a session with the broker.",
		}),
	}
	for _, o := range []outcome{success, duplicate, retried, deadLettered} {
		m.messages[o] = messages.WithLabelValues(string(o))
	}
	failures := make.NewCounterVec(prometheus.CounterOpts{
		Name: "consumer_copy_failures_total", Help: "Attempts at a copy that failed, by where the copy goes. The message is held, and the copy is tried again.",
	}, []string{"to"})
	waiting := make.NewGaugeVec(prometheus.GaugeOpts{
		Name: "consumer_copies_waiting", Help: "Messages of which a copy is being made, by where it goes.",
	}, []string{"to"})
	for toDeadLetters, to := range map[bool]string{true: "dlq", false: "retry"} {
		m.copyFailures[toDeadLetters] = failures.WithLabelValues(to)
		m.copiesWaiting[toDeadLetters] = waiting.WithLabelValues(to)
	}
	m.registry = registry
	return m
}

// oldest shows the age of the oldest message in hand.
func (m *Metrics) oldest(age func() time.Duration) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "consumer_oldest_message_age_seconds",
		Help: "How long ago the event of the oldest message in hand was committed; 0 if none is in hand.",
	}, func() float64 { return age().Seconds() })
}

func (m *Metrics) count(o outcome) {
	m.messages[o].Inc()
	if o == duplicate {
		m.duplicates.Inc()
	}
}

// waiting counts a message that waits for its copy, until the function that it returns is
// called.
func (m *Metrics) waiting(toDeadLetters bool) (done func()) {
	m.copiesWaiting[toDeadLetters].Inc()
	return m.copiesWaiting[toDeadLetters].Dec
}

func (m *Metrics) copied(toDeadLetters bool) {
	if toDeadLetters {
		m.dlqCopies.Inc()
	}
}

func (m *Metrics) notCopied(toDeadLetters bool) {
	m.copyFailures[toDeadLetters].Inc()
	if toDeadLetters {
		m.dlqCopyFailures.Inc()
	}
}
