package consumer

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// registerWaiting registers what tells how long messages wait in this consumer. Nothing
// counts them yet: the series are there for the alerts and panels that ask for them.
func registerWaiting(registry prometheus.Registerer) {
	factory := promauto.With(registry)
	waiting := factory.NewGaugeVec(prometheus.GaugeOpts{
		Name: "consumer_copies_waiting", Help: "Messages that wait because no copy of them can be made now.",
	}, []string{"to"})
	failures := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "consumer_copy_failures_total", Help: "Attempts at a copy that failed.",
	}, []string{"to"})
	for _, to := range []string{"retry", "dlq"} {
		waiting.WithLabelValues(to).Set(0)
		failures.WithLabelValues(to)
	}
	factory.NewCounter(prometheus.CounterOpts{
		Name: "consumer_copies_given_up_total",
		Help: "Messages that went back to the queue because no copy of them could be made in time.",
	})
	factory.NewGauge(prometheus.GaugeOpts{
		Name: "consumer_oldest_message_age_seconds",
		Help: "Time since the event of the oldest message in hand was committed; 0 without messages.",
	})
}
