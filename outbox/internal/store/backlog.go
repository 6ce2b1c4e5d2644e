package store

import (
	"context"
	"fmt"
)

// Backlog counts the events that are not published yet.
type Backlog struct {
	Pending, InProgress, Failed int
	Paused                      int     // those of the pending events that wait until their topic's pause ends
	PausedTopics                int     // also those that an operator has paused
	OldestDue                   float64 // seconds since the oldest due event became due; 0 if none is due
	OldestRefused               float64 // seconds for which a pending event has been refused; 0 if none is
	// OldestUnfinished is in seconds since the oldest event was due, or replayed, that is not done
	// and has not failed, whatever it waits for; 0 if there is none.
	OldestUnfinished float64
}

// CountLimit bounds the counting of metrics. To count a million events takes half a second, and a
// scrape may take three. Without the bound the metrics would be missing when the backlog is
// largest.
const CountLimit = 200_000

// backlogSQL reads the queue and the claims, and never the log. So its cost does not grow with the
// number of published events, and with the backlog only up to the bound.
//
//   - a claim still lists events that its relay has already finished or put off. They are not in
//     the queue, or due later, and are not counted as in progress;
//   - a claim whose lease has ended does not count. The next claim deletes it, and perhaps no
//     relay is left to make one;
//   - OldestDue and OldestUnfinished are the first entry of an index, so they are always exact.
var backlogSQL = `
WITH counted AS (
  SELECT (SELECT count(*) FROM (SELECT FROM outbox_queue LIMIT @limit) q) AS unfinished,
         (SELECT count(*) FROM (SELECT unnest(events) AS id FROM outbox_claims WHERE until > now()) c,
            LATERAL (SELECT available_at FROM outbox_queue WHERE id = c.id LIMIT 1) q
            WHERE q.available_at <= now()) AS in_progress,
         (SELECT count(*) FROM (SELECT FROM outbox_queue WHERE failed_at IS NOT NULL LIMIT @limit) f) AS failed,
         (SELECT count(*) FROM (SELECT FROM outbox_queue WHERE halted LIMIT @limit) h) AS halted
), numbers AS (
  SELECT in_progress, ` + countOrEstimateSQL("unfinished", "outbox_queue_pkey") + ` AS unfinished,
         ` + countOrEstimateSQL("failed", "outbox_queue_failed") + ` AS failed,
         ` + countOrEstimateSQL("halted", "outbox_queue_halted") + ` AS halted
  FROM counted
)
SELECT greatest(unfinished - failed - in_progress, 0) AS pending, in_progress, failed, halted,
       (SELECT count(*) FROM (SELECT FROM outbox_topics WHERE NOT resumed LIMIT @limit) t) AS paused_topics,
       coalesce(extract(epoch FROM now() - (
         SELECT available_at FROM outbox_queue
         WHERE available_at <= now() AND available_at < 'infinity'
           AND id NOT IN ` + LeasedIDsSQL + `
         ORDER BY available_at, seq LIMIT 1)), 0)::float8 AS oldest_due,
       coalesce(extract(epoch FROM now() - (SELECT min(refused_since) FROM (
         SELECT refused_since FROM outbox_queue WHERE refused_since IS NOT NULL AND failed_at IS NULL LIMIT @limit) r)), 0)::float8
         AS oldest_refused,
       coalesce(extract(epoch FROM now() - (
         SELECT due_since FROM outbox_queue WHERE due_since <= now() AND CASE WHEN failed_at IS NULL THEN true END ORDER BY due_since LIMIT 1)), 0)::float8
         AS oldest_unfinished
FROM numbers`

// countOrEstimateSQL is the count, or above the bound an estimate: the pages of the index, times
// the entries on each page when it was last vacuumed or analysed.
func countOrEstimateSQL(counted, index string) string {
	return `CASE WHEN ` + counted + ` < @limit THEN ` + counted + ` ELSE greatest(` + counted + `, (
         SELECT reltuples / greatest(relpages, 1) * (pg_relation_size(oid) / current_setting('block_size')::int)
         FROM pg_class WHERE oid = '` + index + `'::regclass)::bigint) END`
}

// Backlog counts the unfinished events. It estimates numbers above limit.
func (s *Store) Backlog(ctx context.Context, limit int) (b Backlog, err error) {
	err = s.together(ctx, statement{
		"counting", backlogSQL,
		args{"limit": limit},
		rowInto(&b.Pending, &b.InProgress, &b.Failed, &b.Paused, &b.PausedTopics, &b.OldestDue, &b.OldestRefused, &b.OldestUnfinished),
	})
	if err != nil {
		return Backlog{}, fmt.Errorf("counting the backlog: %w", err)
	}
	return b, nil
}
