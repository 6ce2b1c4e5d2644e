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
	Unroutable                  int     // of the pending ones, those that no queue was bound for
	OldestDue                   float64 // seconds since the first event that is due became so; 0 if none is
}

// exactly is up to how many events are counted. A million takes half a second, and a scrape
// has three: without a bound the numbers would be gone when they are wanted most.
const exactly = 200_000

// backlogSQL walks the partial indexes of what is unfinished, and never the table: what it
// costs does not grow with what has been published, nor beyond the bound with the backlog.
//
//   - what is not due is counted by itself, the nearest first: so all that is in progress is
//     among it, however much is due;
//   - OldestDue is the first entry of the index, so it is always exact.
var backlogSQL = `
WITH unfinished AS MATERIALIZED (
  (SELECT status FROM outbox_events WHERE status IN ('pending', 'in_progress') AND available_at <= now()
   ORDER BY available_at LIMIT @limit)
  UNION ALL
  (SELECT status FROM outbox_events WHERE status IN ('pending', 'in_progress') AND available_at > now()
   ORDER BY available_at LIMIT @limit)
), counted AS (
  SELECT (SELECT count(*) FROM unfinished) AS unfinished,
         (SELECT count(*) FROM unfinished WHERE status = 'in_progress') AS in_progress,
         (SELECT count(*) FROM (SELECT FROM outbox_events WHERE status = 'failed' LIMIT @limit) f) AS failed,
         (SELECT count(*) FROM (SELECT FROM outbox_events WHERE ` + unroutableSQL + ` LIMIT @limit) u) AS unroutable
)
SELECT ` + numberSQL("unfinished", "outbox_events_due") + ` - in_progress AS pending, in_progress,
       ` + numberSQL("failed", "outbox_events_failed") + ` AS failed,
       ` + numberSQL("unroutable", "outbox_events_unroutable") + ` AS unroutable,
       coalesce(extract(epoch FROM now() - (
         SELECT min(available_at) FROM outbox_events
         WHERE status IN ('pending', 'in_progress') AND available_at <= now())), 0)::float8 AS oldest_due
FROM counted`

// numberSQL is what was counted, or beyond the bound an estimate: each page of the index
// has as many entries as there were when it was last vacuumed or analysed.
func numberSQL(counted, index string) string {
	return `CASE WHEN ` + counted + ` < @limit THEN ` + counted + ` ELSE greatest(` + counted + `, (
         SELECT reltuples / greatest(relpages, 1) * (pg_relation_size(oid) / current_setting('block_size')::int)
         FROM pg_class WHERE oid = '` + index + `'::regclass)::bigint) END`
}

// Backlog counts, or estimates what is too much to be counted.
func (s *Store) Backlog(ctx context.Context) (b Backlog, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		return tx.Gorm(ctx).Raw(backlogSQL, map[string]any{"limit": s.exactly}).Scan(&b).Error
	})
	if err != nil {
		return Backlog{}, fmt.Errorf("counting the backlog: %w", err)
	}
	return b, nil
}

var (
	backlogDesc = prometheus.NewDesc("outbox_backlog",
		"Events that are not yet published, whatever they wait for; an estimate beyond 200,000. The table's number, the same on every replica: take the max, not the sum.", nil, nil)
	eventsDesc = prometheus.NewDesc("outbox_events",
		"Unfinished events, by status. The table's numbers, the same on every replica: take the max, not the sum.", []string{"status"}, nil)
	unroutableDesc = prometheus.NewDesc("outbox_events_unroutable",
		"Of the pending events, those that the broker returned, or would return, because no queue is bound. The table's number, the same on every replica.", nil, nil)
	oldestDueDesc = prometheus.NewDesc("outbox_oldest_due_age_seconds",
		"For how long the first event that is due has been so. The table's number, the same on every replica.", nil, nil)
)

// Metrics shows the backlog.
func (s *Store) Metrics() prometheus.Collector {
	return postgres.Scrape{
		Descs: []*prometheus.Desc{backlogDesc, eventsDesc, unroutableDesc, oldestDueDesc},
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
				gauge(unroutableDesc, float64(b.Unroutable)),
				gauge(oldestDueDesc, b.OldestDue),
			}, nil
		},
	}
}
