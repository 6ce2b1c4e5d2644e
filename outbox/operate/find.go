package operate

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Filter selects events. A zero field selects any.
type Filter struct {
	Status      string
	Topic       string
	FailureCode string
	IDs         []uuid.UUID // nil: any
	Aggregate   string      // with AggregateID
	AggregateID string
	From        time.Time // failed at this time or later; an event that has not failed: created
	Before      time.Time // failed before this time; an event that has not failed: created
}

// String says what the filter selects, for the record of a decision. It looks like the flags of a
// command; the command has only some of them.
func (f Filter) String() string {
	var flags []string
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+" "+value)
		}
	}
	add("topic", f.Topic)
	add("failure-code", f.FailureCode)
	for _, id := range f.IDs {
		add("id", id.String())
	}
	add(f.Aggregate, f.AggregateID)
	if !f.From.IsZero() {
		add("since", f.From.UTC().Format(time.RFC3339Nano))
	}
	if !f.Before.IsZero() {
		add("until", f.Before.UTC().Format(time.RFC3339Nano))
	}
	return strings.Join(flags, " ")
}

// kindSQL selects by topic and reason, and beforeSQL by the end of the time.
const (
	kindSQL   = `cast(@topic AS text) IN ('', topic) AND cast(@failure_code AS text) IN ('', code)`
	beforeSQL = `at < cast(@before AS timestamptz)`
)

func (f Filter) args() args {
	before := f.Before
	if before.IsZero() {
		before = endOfTime
	}
	return args{"topic": f.Topic, "failure_code": f.FailureCode, "before": before}
}

// few selects events by their ids or their aggregate. It is "" if the filter names neither.
func (f Filter) few() (condition string, a args) {
	var conditions []string
	a = args{}
	if f.IDs != nil {
		conditions = append(conditions, "id = ANY (cast(cast(@ids AS text) AS uuid[]))")
		a["ids"] = store.IDs(f.IDs)
	}
	if f.AggregateID != "" {
		conditions = append(conditions, "(aggregate, aggregate_id) = (@aggregate, @aggregate_id)")
		a["aggregate"], a["aggregate_id"] = f.Aggregate, f.AggregateID
	}
	return strings.Join(conditions, " AND "), a
}

// sources are the events of each status with what a filter asks for. Their ids are read along a
// primary key; what is in the log is looked up one by one. If there is no row of the log, an event
// of the queue still appears, with the creation time that is zero in Go.
var sources = map[string]string{
	Failed: `
SELECT id, topic, coalesce(failure_code, '') AS code, failed_at AS at FROM outbox_queue WHERE failed_at IS NOT NULL`,

	Pending: `
SELECT q.id, q.topic, coalesce(q.failure_code, '') AS code, coalesce(e.created_at, '0001-01-01 00:00Z') AS at FROM outbox_queue q
LEFT JOIN LATERAL (SELECT created_at FROM outbox_events WHERE id = q.id AND slot = q.slot LIMIT 1) e ON true
WHERE q.failed_at IS NULL
  AND NOT (q.available_at <= now() AND q.id IN (SELECT unnest(events) FROM outbox_claims WHERE until > now()))`,

	InProgress: `
SELECT q.id, q.topic, coalesce(q.failure_code, '') AS code, coalesce(e.created_at, '0001-01-01 00:00Z') AS at
FROM (SELECT unnest(events) AS id FROM outbox_claims WHERE until > now()) c
CROSS JOIN LATERAL (SELECT * FROM outbox_queue WHERE id = c.id AND available_at <= now() LIMIT 1) q
LEFT JOIN LATERAL (SELECT created_at FROM outbox_events WHERE id = q.id AND slot = q.slot LIMIT 1) e ON true`,

	// An event that moved to another slot while it was marked is recorded with both slots.
	Published: `
SELECT p.id, e.topic, '' AS code, e.created_at AS at FROM outbox_published p
CROSS JOIN LATERAL (SELECT topic, created_at FROM outbox_events WHERE id = p.id AND slot = p.slot LIMIT 1) e`,

	Discarded: settledSQL + ` AND NOT overtaken`,
	Overtaken: settledSQL + ` AND overtaken`,
}

const settledSQL = `
SELECT d.id, coalesce(e.topic, '') AS topic, coalesce(d.failure_code, '') AS code,
       coalesce(d.failed_at, e.created_at, '0001-01-01 00:00Z') AS at
FROM outbox_discarded d
LEFT JOIN LATERAL (SELECT topic, created_at FROM outbox_events WHERE id = d.id AND slot = d.slot LIMIT 1) e ON true
LEFT JOIN LATERAL (SELECT id FROM outbox_published WHERE id = d.id LIMIT 1) p ON true
WHERE p.id IS NULL`

// fewSQL is the source for a filter that names events or an aggregate, whatever their status is.
func fewSQL(condition string) string {
	return `
SELECT id, topic, failure_code AS code, coalesce(failed_at, created_at) AS at
FROM (SELECT ` + eventColumns + ` FROM (
        SELECT id FROM outbox_events WHERE ` + condition + `
        UNION SELECT id FROM outbox_queue WHERE ` + condition + `) i ` + stateSQL + `) e
WHERE status = cast(@status AS text)`
}

// matching is the ids that a filter selects.
func (f Filter) matching() (query string, a args, err error) {
	source, known := sources[f.Status]
	if !known {
		return "", nil, fmt.Errorf("there is no status %q", f.Status)
	}
	a = f.args()
	a["from"] = f.From
	if condition, few := f.few(); condition != "" {
		source = fewSQL(condition)
		maps.Copy(a, few)
		a["status"] = f.Status
	}
	return `SELECT id FROM (` + source + `) e
WHERE ` + kindSQL + ` AND at >= cast(@from AS timestamptz) AND ` + beforeSQL, a, nil
}

// List returns at most limit events with ids greater than after, ordered by id. So all pages
// together read a table once. The ids are usually of UUID version 7: their order is about that of
// creation. The filter must have a status.
func (o *Operator) List(ctx context.Context, f Filter, after uuid.UUID, limit int) ([]Event, error) {
	matching, a, err := f.matching()
	if err != nil {
		return nil, err
	}
	a["after"], a["limit"] = after.String(), limit
	return o.events(ctx, "looking for "+f.Status+" events", `
WITH page AS MATERIALIZED (`+matching+` AND id > cast(@after AS uuid) ORDER BY id LIMIT @limit)
SELECT `+eventColumns+` FROM page i `+stateSQL+` ORDER BY i.id`, a)
}

// Count returns how many events f selects. It reads all of them.
func (o *Operator) Count(ctx context.Context, f Filter) (int, error) {
	matching, a, err := f.matching()
	if err != nil {
		return 0, err
	}
	return readOne(ctx, o.store, "counting "+f.Status+" events", "SELECT count(*)::int FROM ("+matching+") e", a, pgx.RowTo[int])
}
