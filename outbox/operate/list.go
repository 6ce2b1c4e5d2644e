package operate

import (
	"context"
	"fmt"
	"maps"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// sources are the events of each status with what a filter asks for. Their ids are read along a
// primary key; what is in the log is looked up one by one. If there is no row of the log, an event
// of the queue still appears.
var sources = map[string]string{
	Failed: `
SELECT id, topic, coalesce(failure_code, '') AS code, failed_at AS at FROM outbox_queue WHERE failed_at IS NOT NULL`,

	Pending: `
SELECT q.id, q.topic, coalesce(q.failure_code, '') AS code, e.created_at AS at FROM outbox_queue q
LEFT JOIN LATERAL (SELECT created_at FROM outbox_events WHERE id = q.id AND slot = q.slot LIMIT 1) e ON true
WHERE q.failed_at IS NULL
  AND NOT (q.available_at <= now() AND q.id IN (SELECT unnest(events) FROM outbox_claims WHERE until > now()))`,

	InProgress: `
SELECT q.id, q.topic, coalesce(q.failure_code, '') AS code, e.created_at AS at
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
SELECT d.id, coalesce(e.topic, '') AS topic, coalesce(d.failure_code, '') AS code, coalesce(d.failed_at, e.created_at) AS at
FROM outbox_discarded d
LEFT JOIN LATERAL (SELECT topic, created_at FROM outbox_events WHERE id = d.id AND slot = d.slot LIMIT 1) e ON true
LEFT JOIN LATERAL (SELECT id FROM outbox_published WHERE id = d.id LIMIT 1) p ON true
WHERE p.id IS NULL`

// fewSQL is the source for a filter that names events or an aggregate, whatever their status is.
func fewSQL(one *conditions) string {
	return `
SELECT id, topic, failure_code AS code, CASE WHEN failed_at IS NULL THEN created_at ELSE failed_at END AS at
FROM (SELECT ` + eventColumns + ` FROM (
        SELECT id FROM outbox_events WHERE true` + one.sql.String() + `
        UNION SELECT id FROM outbox_queue WHERE true` + one.sql.String() + `) i ` + stateSQL + `) e
WHERE status = cast(@status AS text)`
}

// matching is the ids that a filter selects, and when they failed or were created.
func (f Filter) matching() (query string, a args, err error) {
	source, known := sources[f.Status]
	if !known {
		return "", nil, fmt.Errorf("there is no status %q", f.Status)
	}
	a = args{}
	if one := f.one(); len(one.args) > 0 {
		source = fewSQL(one)
		a["status"] = f.Status
		maps.Copy(a, one.args)
	}
	query = "SELECT id FROM (" + source + ") e WHERE true"
	for _, c := range []*conditions{f.kind(), f.times("at")} {
		query += c.sql.String()
		maps.Copy(a, c.args)
	}
	return query, a, nil
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
	events, err := o.readEvents(ctx, `
WITH page AS MATERIALIZED (`+matching+` AND id > cast(@after AS uuid) ORDER BY id LIMIT @limit)
SELECT `+eventColumns+` FROM page i `+stateSQL+` ORDER BY i.id`, a)
	if err != nil {
		return nil, fmt.Errorf("looking for %s events: %w", f.Status, err)
	}
	return events, nil
}

// Count returns how many events f selects. It reads all of them.
func (o *Operator) Count(ctx context.Context, f Filter) (int, error) {
	matching, a, err := f.matching()
	if err != nil {
		return 0, err
	}
	n, err := read(ctx, o.store, "SELECT count(*)::int FROM ("+matching+") e", a, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("counting %s events: %w", f.Status, err)
	}
	return n[0], nil
}
