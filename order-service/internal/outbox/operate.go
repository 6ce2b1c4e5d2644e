package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// Operator is the operators' side of the outbox: they look, and decide about what
// failed.
type Operator struct{ db *postgres.DB }

// NewOperator returns the outbox in db.
func NewOperator(db *postgres.DB) *Operator { return &Operator{db: db} }

// Position is an event's place in its order.
type Position struct {
	AggregateType    string    `json:"aggregate_type"`
	AggregateID      uuid.UUID `json:"aggregate_id"`
	AggregateVersion int       `json:"aggregate_version"`
}

// Entry is an event as operators see it. In JSON it has the names of the columns.
type Entry struct {
	ID       uuid.UUID `json:"id"`
	EventKey string    `json:"event_key"`
	Position
	Status        string     `json:"status"`
	RetryCount    int        `json:"retry_count"`
	FailureCode   *string    `json:"failure_code"`
	FailureReason *string    `json:"failure_reason"`
	CreatedAt     time.Time  `json:"created_at"`
	PublishedAt   *time.Time `json:"published_at"`
	FailedAt      *time.Time `json:"failed_at"`
	Age           float64    `json:"age_seconds"` // since FailedAt, or else CreatedAt, by the database's clock
}

const entryColumns = `id, event_key, aggregate_type, aggregate_id, aggregate_version, status, retry_count,
  failure_code, failure_reason, created_at, published_at, failed_at,
  extract(epoch FROM now() - coalesce(failed_at, created_at))::float8 AS age`

// Filter chooses events.
type Filter struct {
	Status   string
	EventKey string    // "" is any
	Before   time.Time // failed, or else created, at this time or earlier
}

func (f Filter) args() map[string]any {
	return map[string]any{"status": f.Status, "event_key": f.EventKey, "before": f.Before}
}

// Only failed and discarded events have a failed_at.
const filterSQL = `
WHERE status = @status AND @event_key IN ('', event_key) AND coalesce(failed_at, created_at) <= @before`

// findSQL goes through the table by its primary key, so that all pages together read
// it once. The ids are of version 7: their order is about that of creation.
const findSQL = `
SELECT ` + entryColumns + ` FROM outbox_events` + filterSQL + ` AND id > @after
ORDER BY id LIMIT @limit`

// Find returns at most limit events with ids beyond after, by id.
func (o *Operator) Find(ctx context.Context, f Filter, after uuid.UUID, limit int) ([]Entry, error) {
	args := f.args()
	args["after"], args["limit"] = after, limit
	var entries []Entry
	if err := o.read(ctx, &entries, findSQL, args); err != nil {
		return nil, fmt.Errorf("looking for %s events: %w", f.Status, err)
	}
	return entries, nil
}

// Count returns how many events there are.
func (o *Operator) Count(ctx context.Context, f Filter) (n int, err error) {
	if err := o.read(ctx, &n, "SELECT count(*) FROM outbox_events"+filterSQL, f.args()); err != nil {
		return 0, fmt.Errorf("counting %s events: %w", f.Status, err)
	}
	return n, nil
}

const getSQL = `
SELECT ` + entryColumns + ` FROM outbox_events
WHERE id = ANY (cast(@ids AS uuid[])) ORDER BY id`

// Get returns those of these events that exist, by id.
func (o *Operator) Get(ctx context.Context, ids ...uuid.UUID) ([]Entry, error) {
	var entries []Entry
	if err := o.read(ctx, &entries, getSQL, map[string]any{"ids": uuids(ids)}); err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return entries, nil
}

// Now is the database's clock, from which an operator's "an hour ago" counts.
func (o *Operator) Now(ctx context.Context) (now time.Time, err error) {
	if err := o.read(ctx, &now, "SELECT now()"); err != nil {
		return time.Time{}, fmt.Errorf("asking the database for the time: %w", err)
	}
	return now.UTC(), nil
}

func (o *Operator) read(ctx context.Context, into any, query string, args ...any) error {
	return o.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		return tx.Gorm(ctx).Raw(query, args...).Scan(into).Error
	})
}
