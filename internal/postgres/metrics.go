package postgres

import (
	"context"
	"log/slog"
	"time"

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

// scrapeTimeout limits the queries of one scrape.
const scrapeTimeout = 3 * time.Second

// Scrape is a collector that queries the database at each scrape.
type Scrape struct {
	Descs []*prometheus.Desc
	// Query queries the database and returns the metrics. While the database is unavailable there are
	// no metrics: old numbers would be wrong.
	Query func(ctx context.Context) ([]prometheus.Metric, error)
}

// Describe sends the descriptions of the metrics.
func (s Scrape) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range s.Descs {
		descs <- desc
	}
}

// Collect queries the database, and sends the metrics.
func (s Scrape) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	answers, err := s.Query(ctx)
	if err != nil {
		slog.WarnContext(ctx, "a scrape goes without the database's numbers", "error", err)
	}
	for _, answer := range answers {
		metrics <- answer
	}
}

const oldestTransactionSQL = `
SELECT coalesce(extract(epoch FROM now() - min(xact_start)), 0)::float8
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`

// OldestTransaction is a metric that shows a transaction that was left open. Vacuum removes no row
// that this transaction might still see, so every queue in the database gets slower. A role needs
// pg_read_all_stats to see other users' transactions.
func (db *DB) OldestTransaction() prometheus.Collector {
	desc := prometheus.NewDesc("db_oldest_transaction_age_seconds", "Age of the oldest open transaction in this database, of any user.", nil, nil)
	return Scrape{Descs: []*prometheus.Desc{desc}, Query: func(ctx context.Context) ([]prometheus.Metric, error) {
		var age float64
		err := db.pool.QueryRow(ctx, oldestTransactionSQL).Scan(&age)
		if err != nil {
			return nil, err
		}
		return []prometheus.Metric{prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, age)}, nil
	}}
}
