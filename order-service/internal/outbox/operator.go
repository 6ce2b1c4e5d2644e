package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Operator is the operators' side of the outbox: it finds events, and replays or discards those that
// failed.
type Operator struct {
	db          *postgres.DB
	failedUntil time.Time
}

// NewOperator returns the outbox in db.
func NewOperator(db *postgres.DB) *Operator {
	return &Operator{db: db, failedUntil: time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)}
}

// AsOf returns an operator that changes only events that had failed at this time. An event that was
// replayed since, and failed again, is not what the operator has seen.
func (o *Operator) AsOf(seen time.Time) *Operator { return &Operator{db: o.db, failedUntil: seen} }

// Position identifies an event by its order and its version.
type Position struct {
	AggregateType    string    `json:"aggregate_type"`
	AggregateID      uuid.UUID `json:"aggregate_id"`
	AggregateVersion int       `json:"aggregate_version"`
}

// Entry is an event as operators see it. Its JSON has the names of the columns.
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

// pageSQL pages by id. So all pages together read a table once. The ids are of UUID version 7: their
// order is about the order of creation.
func (f Filter) pageSQL(after uuid.UUID, limit int) (string, postgres.Args) {
	c := f.all()
	c.add("id > @after", postgres.Args{"after": after, "limit": limit})
	return "WHERE true" + c.sqlAfter() + " ORDER BY id LIMIT @limit", c.args
}

const findSQL = `
SELECT ` + entryColumns + ` FROM outbox_status `

// findPublishedSQL does not use the view: a page of the view would sort all published events.
const findPublishedSQL = `
SELECT ` + entryColumns + ` FROM (
  SELECT e.*, 'published' AS status, p.retry_count, p.published_at,
         NULL::text AS failure_code, NULL::text AS failure_reason, NULL::timestamptz AS failed_at
  FROM outbox_published p JOIN outbox_events e USING (id)) published `

// Find returns at most limit events with ids greater than after, ordered by id.
func (o *Operator) Find(ctx context.Context, f Filter, after uuid.UUID, limit int) (entries []Entry, err error) {
	page, args := f.pageSQL(after, limit)
	switch f.Status {
	case "failed":
		page, args = f.pageOfFailed(after, limit)
		entries, err = readIndexed(ctx, o, page, args, pgx.RowToStructByName[Entry])
	case "published":
		entries, err = o.readEntries(ctx, findPublishedSQL+page, args)
	default:
		entries, err = o.readEntries(ctx, findSQL+page, args)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for %s events: %w", f.Status, err)
	}
	return entries, nil
}

func (o *Operator) readEntries(ctx context.Context, query string, args postgres.Args) (entries []Entry, err error) {
	err = o.inSnapshot(ctx, func(tx *postgres.Tx) error {
		entries, err = postgres.Read(ctx, tx, query, args, pgx.RowToStructByName[Entry])
		return err
	})
	return entries, err
}

// Count returns how many events f selects. It reads all of them.
func (o *Operator) Count(ctx context.Context, f Filter) (n int, err error) {
	c := f.all()
	err = o.inSnapshot(ctx, func(tx *postgres.Tx) error {
		n, err = postgres.ReadOne(ctx, tx, "SELECT count(*)::int FROM outbox_status WHERE true"+c.sqlAfter(), c.args, pgx.RowTo[int])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("counting %s events: %w", f.Status, err)
	}
	return n, nil
}

const getSQL = `
SELECT ` + entryColumns + ` FROM outbox_status
WHERE id = ANY (cast(@ids AS uuid[])) ORDER BY id`

// Get returns the events with these ids, ordered by id. It leaves out ids that do not exist.
func (o *Operator) Get(ctx context.Context, ids ...uuid.UUID) ([]Entry, error) {
	var entries []Entry
	if err := o.read(ctx, &entries, getSQL, map[string]any{"ids": uuids(ids)}); err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return entries, nil
}

// Now is the database's time. An operator's "an hour ago" counts from it.
func (o *Operator) Now(ctx context.Context) (now time.Time, err error) {
	if err := o.read(ctx, &now, "SELECT now()"); err != nil {
		return time.Time{}, fmt.Errorf("asking the database for the time: %w", err)
	}
	return now.UTC(), nil
}

// ErrNoEvent means that there is no event with that id.
var ErrNoEvent = errors.New("no such event")

// Detail is all that is known about one event.
type Detail struct {
	Entry
	Seq         int64          `json:"seq"`
	AvailableAt time.Time      `json:"available_at,omitzero"` // zero if it is parked
	LockedBy    *string        `json:"locked_by"`
	Traceparent string         `json:"traceparent"`
	Payload     jsontext.Value `json:"payload"`
	BlockedBy   []Entry        `json:"blocked_by" gorm:"-"` // the order's older events that are not published or discarded
	Waiting     int            `json:"waiting"`             // how many later events of the order wait for it
}

const (
	showSQL = `
SELECT ` + entryColumns + `, seq, nullif(available_at, 'infinity') AS available_at, locked_by, traceparent, payload
FROM outbox_status WHERE id = @id`

	blockedBySQL = `
SELECT ` + entryColumns + ` FROM outbox_status
WHERE (aggregate_type, aggregate_id) = (@type, @aggregate) AND aggregate_version < @version
  AND status NOT IN ('published', 'discarded')
ORDER BY aggregate_version`

	waitingSQL = `
SELECT count(*) FROM outbox_status
WHERE (aggregate_type, aggregate_id) = (@type, @aggregate) AND aggregate_version > @version
  AND status NOT IN ('published', 'discarded')`
)

// Show returns one event, read in one snapshot, or [ErrNoEvent].
func (o *Operator) Show(ctx context.Context, id uuid.UUID) (d Detail, err error) {
	err = o.inSnapshot(ctx, func(tx *postgres.Tx) error {
		found := tx.Gorm(ctx).Raw(showSQL, map[string]any{"id": id}).Scan(&d)
		if found.Error == nil && found.RowsAffected == 0 {
			return ErrNoEvent
		}
		if finished := d.Status == "published" || d.Status == "discarded"; found.Error != nil || finished {
			return found.Error // a finished event blocks nothing, and nothing blocks it
		}
		order := map[string]any{"type": d.AggregateType, "aggregate": d.AggregateID, "version": d.AggregateVersion}
		if err := tx.Gorm(ctx).Raw(blockedBySQL, order).Scan(&d.BlockedBy).Error; err != nil {
			return err
		}
		return tx.Gorm(ctx).Raw(waitingSQL, order).Scan(&d.Waiting).Error
	})
	if err != nil {
		return Detail{}, fmt.Errorf("reading event %s: %w", id, err)
	}
	return d, nil
}

func (o *Operator) read(ctx context.Context, into any, query string, args ...any) error {
	return o.inSnapshot(ctx, func(tx *postgres.Tx) error {
		return tx.Gorm(ctx).Raw(query, args...).Scan(into).Error
	})
}

// inSnapshot runs fn in a read-only transaction.
func (o *Operator) inSnapshot(ctx context.Context, fn func(*postgres.Tx) error) error {
	return o.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		if err := KeepPartitions(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}
