package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Event is an event and its status.
type Event struct {
	ID          uuid.UUID
	EventKey    string
	Status      string
	RetryCount  int
	CreatedAt   time.Time
	PublishedAt *time.Time
	FailureCode *string
}

// historyFromSQL finds what the view outbox_status finds, in less time: to plan the view over all
// partitions takes longer than to run this. It looks once into each partition for the aggregate's
// events, and then into the other tables by id.
const historyFromSQL = `
FROM events e
LEFT JOIN LATERAL (SELECT * FROM outbox_published WHERE id = e.id LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT * FROM outbox_discarded WHERE id = e.id LIMIT 1) d ON true
LEFT JOIN LATERAL (SELECT * FROM outbox_queue WHERE id = e.id LIMIT 1) q ON true`

// historyColumns need claimed, the SQL that is true if a relay has claimed an event that is due.
func historyColumns(claimed string) string {
	return `e.id, e.event_key,
       CASE WHEN p.id IS NOT NULL THEN 'published'
            WHEN d.id IS NOT NULL THEN 'discarded'
            WHEN q.failed_at IS NOT NULL THEN 'failed'
            WHEN q.available_at <= now() AND ` + claimed + ` THEN 'in_progress'
            ELSE 'pending' END AS status,
       coalesce(p.retry_count, d.retry_count, q.retry_count) AS retry_count, e.created_at, p.published_at,
       CASE WHEN p.id IS NULL THEN coalesce(d.failure_code, q.failure_code) END AS failure_code`
}

var historySQL = `
WITH events AS MATERIALIZED (
  SELECT id, event_key, created_at, aggregate_version FROM outbox_events
  WHERE (aggregate_type, aggregate_id) = (@type, @aggregate)
)
SELECT ` + historyColumns("EXISTS (SELECT FROM outbox_claims WHERE until > now() AND e.id = ANY (events))") +
	historyFromSQL + `
WHERE coalesce(p.id, d.id, q.id) IS NOT NULL
ORDER BY e.aggregate_version`

// KeepPartitions waits for a janitor that moves events to another partition. Until the end of the
// transaction, no janitor moves any. In a snapshot it must come before the first query: a query
// that waits for the janitor with an older snapshot does not find the events that moved.
func KeepPartitions(tx *postgres.Tx) error {
	return tx.Write("waiting for the janitor", "LOCK TABLE outbox_published, outbox_events IN ACCESS SHARE MODE", nil)
}

// History returns the events of one aggregate, the oldest first. Call [KeepPartitions] before it.
func History(ctx context.Context, tx *postgres.Tx, aggregateType string, aggregateID uuid.UUID) ([]Event, error) {
	args := postgres.Args{"type": aggregateType, "aggregate": aggregateID}
	events, err := postgres.Read(ctx, tx, historySQL, args, pgx.RowToStructByName[Event])
	if err != nil {
		return nil, fmt.Errorf("reading the events of %s %s: %w", aggregateType, aggregateID, err)
	}
	return events, nil
}
