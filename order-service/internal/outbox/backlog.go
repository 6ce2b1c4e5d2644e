package outbox

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
)

// Backlog is what is not yet published, whatever it waits for.
type Backlog struct {
	Pending, InProgress, Failed int
	OldestDue                   float64 // seconds since the first event that is due became so; 0 if none is
}

// backlogSQL walks the partial indexes of what is unfinished, and never the table:
// what it costs does not grow with what has been published.
const backlogSQL = `
SELECT count(*) FILTER (WHERE status = 'pending') AS pending,
       count(*) FILTER (WHERE status = 'in_progress') AS in_progress,
       (SELECT count(*) FROM outbox_events WHERE status = 'failed') AS failed,
       coalesce(extract(epoch FROM now() - min(available_at) FILTER (WHERE available_at <= now())), 0)::float8 AS oldest_due
FROM outbox_events WHERE status IN ('pending', 'in_progress')`

// Backlog counts.
func (s *Store) Backlog(ctx context.Context) (b Backlog, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error { return tx.Gorm(ctx).Raw(backlogSQL).Scan(&b).Error })
	if err != nil {
		return Backlog{}, fmt.Errorf("counting the backlog: %w", err)
	}
	return b, nil
}

var (
	backlogDesc = prometheus.NewDesc("outbox_backlog",
		"Events that are not yet published, whatever they wait for. The table's number, the same on every replica: take the max, not the sum.", nil, nil)
	eventsDesc = prometheus.NewDesc("outbox_events",
		"Unfinished events, by status. The table's numbers, the same on every replica: take the max, not the sum.", []string{"status"}, nil)
	oldestDueDesc = prometheus.NewDesc("outbox_oldest_due_age_seconds",
		"For how long the first event that is due has been so. The table's number, the same on every replica.", nil, nil)
)

// Metrics shows the backlog.
func (s *Store) Metrics() prometheus.Collector {
	return postgres.Scrape{
		Descs: []*prometheus.Desc{backlogDesc, eventsDesc, oldestDueDesc},
		Ask: func(ctx context.Context) ([]prometheus.Metric, error) {
			b, err := s.Backlog(ctx)
			if err != nil {
				return nil, err
			}
			gauge := func(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
				return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
			}
			return []prometheus.Metric{
				gauge(backlogDesc, float64(b.Pending+b.InProgress+b.Failed)),
				gauge(eventsDesc, float64(b.Pending), "pending"),
				gauge(eventsDesc, float64(b.InProgress), "in_progress"),
				gauge(eventsDesc, float64(b.Failed), "failed"),
				gauge(oldestDueDesc, b.OldestDue),
			}, nil
		},
	}
}
