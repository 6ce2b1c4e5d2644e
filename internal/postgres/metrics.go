package postgres

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics returns the metrics of the pool. The label pool has this name.
func (db *DB) Metrics(pool string) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, prometheus.Labels{"pool": pool})
	}
	return &poolMetrics{
		db:          db,
		connections: desc("db_pool_connections", "Connections of the pool, by state.", "state"),
		limit:       desc("db_pool_connections_limit", "Maximum number of connections of the pool."),
		waits:       desc("db_pool_waits_total", "Number of waits for a connection."),
		waited:      desc("db_pool_wait_seconds_total", "Time spent waiting for connections."),
	}
}

type poolMetrics struct {
	db                                *DB
	connections, limit, waits, waited *prometheus.Desc
}

// Describe sends the descriptions of the metrics.
func (m *poolMetrics) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.connections, m.limit, m.waits, m.waited} {
		descs <- desc
	}
}

// Collect reads the pool's statistics. It does not query the database.
func (m *poolMetrics) Collect(metrics chan<- prometheus.Metric) {
	stat := m.db.pool.Stat()
	gauge := func(desc *prometheus.Desc, value int32, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(m.connections, stat.AcquiredConns(), "busy")
	gauge(m.connections, stat.IdleConns(), "idle")
	gauge(m.limit, stat.MaxConns())
	metrics <- prometheus.MustNewConstMetric(m.waits, prometheus.CounterValue, float64(stat.EmptyAcquireCount()))
	metrics <- prometheus.MustNewConstMetric(m.waited, prometheus.CounterValue, stat.EmptyAcquireWaitTime().Seconds())
}
