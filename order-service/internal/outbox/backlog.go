package outbox

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
)

// Backlog counts the events that are not published yet.
type Backlog struct {
	Pending, InProgress, Failed int
	Unroutable                  int     // those of the pending events that no queue is bound for
	OldestDue                   float64 // seconds since the oldest due event became due; 0 if none is due
}

// countLimit bounds the counting. To count a million events takes half a second, and a scrape may
// take three. Without the bound the metrics would be missing when the backlog is largest.
const countLimit = 200_000

// backlogSQL reads the queue and the claims, and never the log. So its cost does not grow with the
// number of published events, and with the backlog only up to the bound.
//
//   - a claim still lists events that its relay has already finished or put off. They are not in
//     the queue, or due later, and are not counted as in progress;
//   - a claim whose lease has ended does not count. The next claim deletes it, and perhaps no
//     relay is left to make one;
//   - OldestDue is the first entry of an index, so it is always exact.
var backlogSQL = `
WITH counted AS (
  SELECT (SELECT count(*) FROM (SELECT FROM outbox_queue LIMIT @limit) q) AS unfinished,
         (SELECT count(*) FROM (SELECT unnest(events) AS id FROM outbox_claims WHERE until > now()) c, LATERAL (
            SELECT FROM outbox_queue WHERE id = c.id AND available_at <= now() LIMIT 1) q) AS in_progress,
         (SELECT count(*) FROM (SELECT FROM outbox_queue WHERE failed_at IS NOT NULL LIMIT @limit) f) AS failed,
         (SELECT count(*) FROM (SELECT FROM outbox_queue WHERE ` + unroutableSQL + ` LIMIT @limit) u) AS unroutable
), numbers AS (
  SELECT in_progress, ` + countOrEstimateSQL("unfinished", "outbox_queue_pkey") + ` AS unfinished,
         ` + countOrEstimateSQL("failed", "outbox_queue_failed") + ` AS failed,
         ` + countOrEstimateSQL("unroutable", "outbox_queue_unroutable") + ` AS unroutable
  FROM counted
)
SELECT greatest(unfinished - failed - in_progress, 0) AS pending, in_progress, failed, unroutable,
       coalesce(extract(epoch FROM now() - (
         SELECT available_at FROM outbox_queue
         WHERE available_at <= now() AND available_at < 'infinity'
           AND id NOT IN (SELECT unnest(events) FROM outbox_claims WHERE until > now())
         ORDER BY available_at, seq LIMIT 1)), 0)::float8 AS oldest_due
FROM numbers`

// countOrEstimateSQL is the count, or above the bound an estimate: the pages of the index, times
// the entries on each page when it was last vacuumed or analysed.
func countOrEstimateSQL(counted, index string) string {
	return `CASE WHEN ` + counted + ` < @limit THEN ` + counted + ` ELSE greatest(` + counted + `, (
         SELECT reltuples / greatest(relpages, 1) * (pg_relation_size(oid) / current_setting('block_size')::int)
         FROM pg_class WHERE oid = '` + index + `'::regclass)::bigint) END`
}

// Backlog counts the unfinished events. It estimates numbers above 200,000.
func (s *Store) Backlog(ctx context.Context) (Backlog, error) {
	return s.BacklogUpTo(ctx, s.countLimit)
}

// BacklogUpTo counts the unfinished events. It estimates numbers above limit.
func (s *Store) BacklogUpTo(ctx context.Context, limit int) (b Backlog, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		return tx.Gorm(ctx).Raw(backlogSQL, map[string]any{"limit": limit}).Scan(&b).Error
	})
	if err != nil {
		return Backlog{}, fmt.Errorf("counting the backlog: %w", err)
	}
	return b, nil
}

var (
	backlogDesc = prometheus.NewDesc("outbox_backlog",
		"Events that are not published yet; above 200,000 an estimate. Every replica reports the same table: take the max, not the sum.", nil, nil)
	eventsDesc = prometheus.NewDesc("outbox_events",
		"Unfinished events, by status. Every replica reports the same table: take the max, not the sum.", []string{"status"}, nil)
	unroutableDesc = prometheus.NewDesc("outbox_events_unroutable",
		"Pending events without a route: the broker returned them, or another event of their key. Every replica reports the same table: take the max, not the sum.", nil, nil)
	oldestDueDesc = prometheus.NewDesc("outbox_oldest_due_age_seconds",
		"Seconds since the oldest due event became due. Every replica reports the same table: take the max, not the sum.", nil, nil)
)

// Metrics reports the backlog to Prometheus.
func (s *Store) Metrics() prometheus.Collector {
	return postgres.Scrape{
		Descs: []*prometheus.Desc{backlogDesc, eventsDesc, unroutableDesc, oldestDueDesc},
		Query: func(ctx context.Context) ([]prometheus.Metric, error) {
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
