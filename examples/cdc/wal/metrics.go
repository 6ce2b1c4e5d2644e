package wal

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are about the slot.
type Metrics struct {
	isReading prometheus.Gauge
	held      prometheus.Gauge
	lostSlots prometheus.Counter
	dropped   prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	return &Metrics{
		isReading: factory.NewGauge(prometheus.GaugeOpts{Name: "cdc_reading", Help: "1 while this process reads the slot; one process does."}),
		held:      factory.NewGauge(prometheus.GaugeOpts{Name: "cdc_held_wal_bytes", Help: "How much of the log the slot holds on the server's disk."}),
		lostSlots: factory.NewCounter(prometheus.CounterOpts{Name: "cdc_lost_slots_total", Help: "Slots that were lost, because they held more than max_slot_wal_keep_size."}),
		dropped:   factory.NewCounter(prometheus.CounterOpts{Name: "cdc_dropped_events_total", Help: "Events that were left to the poll of the table, because the slot held more than CDC_MAX_WAL."}),
	}
}

func (m *Metrics) reading(on bool) {
	if m == nil {
		return
	}
	if m.isReading.Set(0); on {
		m.isReading.Set(1)
	}
}

func (m *Metrics) lost() {
	if m != nil {
		m.lostSlots.Inc()
	}
}
