package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Step is an event with all that is known about its way to the broker.
type Step struct {
	Event
	AggregateVersion int
	Traceparent      string
	FailureReason    *string    // of the last failure
	DueAt            *time.Time // nil: it is finished, has failed, or waits for another event or a route
	Worker           *string    // that has claimed it
	ClaimedUntil     *time.Time
	FailedAt         *time.Time
	DiscardedAt      *time.Time
}

// maxWay is how many events of one aggregate are shown.
const maxWay = 100

var waySQL = `
WITH events AS MATERIALIZED (
  SELECT id, event_key, created_at, aggregate_version, traceparent FROM outbox_events
  WHERE (aggregate_type, aggregate_id) = (@type, @aggregate) ORDER BY aggregate_version LIMIT @limit
)
SELECT ` + historyColumns("c.worker IS NOT NULL") + `,
       e.aggregate_version, e.traceparent, CASE WHEN p.id IS NULL THEN coalesce(d.failure_reason, q.failure_reason) END AS failure_reason,
       CASE WHEN p.id IS NULL AND d.id IS NULL THEN nullif(q.available_at, 'infinity') END AS due_at,
       CASE WHEN q.available_at <= now() THEN c.worker END AS worker, CASE WHEN q.available_at <= now() THEN c.until END AS claimed_until,
       CASE WHEN p.id IS NULL THEN coalesce(d.failed_at, q.failed_at) END AS failed_at,
       CASE WHEN p.id IS NULL THEN d.discarded_at END AS discarded_at` + historyFromSQL + `
LEFT JOIN LATERAL (SELECT worker, until FROM outbox_claims WHERE until > now() AND e.id = ANY (events) LIMIT 1) c ON true
WHERE coalesce(p.id, d.id, q.id) IS NOT NULL
ORDER BY e.aggregate_version`

// Way returns the events of one aggregate, the oldest first, at most 100.
func (o *Operator) Way(ctx context.Context, aggregateType string, aggregateID uuid.UUID) ([]Step, error) {
	args := postgres.Args{"type": aggregateType, "aggregate": aggregateID, "limit": maxWay}
	steps, err := readIndexed(ctx, o, waySQL, args, pgx.RowToStructByName[Step])
	if err != nil {
		return nil, fmt.Errorf("reading the way of %s %s: %w", aggregateType, aggregateID, err)
	}
	return steps, nil
}

const positionSQL = `
SELECT aggregate_type, aggregate_id, aggregate_version FROM outbox_events WHERE id = @id`

// Locate returns the aggregate that an event is about, and its version, or [ErrNoEvent].
func (o *Operator) Locate(ctx context.Context, id uuid.UUID) (Position, error) {
	return o.locate(ctx, positionSQL, postgres.Args{"id": id})
}

const tracePositionSQL = `
SELECT aggregate_type, aggregate_id, aggregate_version FROM (
  SELECT * FROM outbox_events ORDER BY id DESC LIMIT @newest) newest
WHERE substr(traceparent, 4, 32) = @trace LIMIT 1`

// LocateTrace looks for a trace id among so many of the newest events. It returns the aggregate of
// the newest event that has it, or [ErrNoEvent]. There is no index of traces: each order would have
// to write it, and it would help only this search.
func (o *Operator) LocateTrace(ctx context.Context, trace string, newest int) (Position, error) {
	return o.locate(ctx, tracePositionSQL, postgres.Args{"trace": strings.ToLower(trace), "newest": newest})
}

func (o *Operator) locate(ctx context.Context, query string, args postgres.Args) (p Position, err error) {
	found, err := readIndexed(ctx, o, query, args, pgx.RowToStructByName[Position])
	switch {
	case err == nil && len(found) == 0:
		return Position{}, ErrNoEvent
	case err != nil:
		return Position{}, fmt.Errorf("looking for an event: %w", err)
	default:
		return found[0], nil
	}
}
