package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTimeout bounds the questions of one scrape.
const scrapeTimeout = 3 * time.Second

// Scrape is what the database is asked at each scrape.
type Scrape struct {
	Descs []*prometheus.Desc
	// Ask returns the numbers. While the database is away there are none: those from
	// before would be a lie.
	Ask func(ctx context.Context) ([]prometheus.Metric, error)
}

// Describe tells the registry what to expect.
func (s Scrape) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range s.Descs {
		descs <- desc
	}
}

// Collect asks.
func (s Scrape) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	answers, err := s.Ask(ctx)
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

// OldestTransaction tells of a transaction that was left open: vacuum removes no row
// that it might still see, and every queue in the database gets slower. Other users'
// transactions are seen with the role pg_read_all_stats only.
func (db *DB) OldestTransaction() prometheus.Collector {
	desc := prometheus.NewDesc("db_oldest_transaction_age_seconds", "Age of the oldest open transaction in this database, of whoever it is.", nil, nil)
	return Scrape{Descs: []*prometheus.Desc{desc}, Ask: func(ctx context.Context) ([]prometheus.Metric, error) {
		var age float64
		err := db.pool.QueryRow(ctx, oldestTransactionSQL).Scan(&age)
		if err != nil {
			return nil, err
		}
		return []prometheus.Metric{prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, age)}, nil
	}}
}
