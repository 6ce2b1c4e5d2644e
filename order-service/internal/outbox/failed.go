package outbox

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// The web page's queries for failed events read the index outbox_queue_failures. It is ordered by
// reason, key, time of the failure, and id. A kind is a pair of a reason and a key. So the list of
// one kind is a range of the index, and the list of all kinds is merged from one range for each. No
// query counts or sorts all failed events: there may be a million.

// kindsSQL finds the kinds of the failed events. It looks at the index once for each kind, however
// many events the kind has.
const kindsSQL = `
WITH RECURSIVE kinds AS (
  (SELECT coalesce(failure_code, '') AS code, event_key FROM outbox_queue
   WHERE failed_at IS NOT NULL ORDER BY coalesce(failure_code, ''), event_key LIMIT 1)
  UNION ALL
  SELECT next.* FROM kinds k, LATERAL (
    SELECT coalesce(failure_code, '') AS code, event_key FROM outbox_queue
    WHERE failed_at IS NOT NULL AND (coalesce(failure_code, ''), event_key) > (k.code, k.event_key)
    ORDER BY coalesce(failure_code, ''), event_key LIMIT 1) next
)`

// ofKindSQL selects the failed events of a kind k.
const ofKindSQL = `failed_at IS NOT NULL AND coalesce(failure_code, '') = k.code AND event_key = k.event_key`

// Place is the place of a failed event in the order of the failures. The zero place is before all.
type Place struct {
	FailedAt time.Time
	ID       uuid.UUID
}

const afterSQL = `(failed_at, id) > (@after_time, @after_id)`

// failed returns a WITH clause that selects failed events. Its table found has at most limit events
// after a place, in the order of their failures. If f.From is later than the place, it replaces the
// place: with two lower bounds, PostgreSQL would begin to read the index at the first one.
func (f Filter) failed(after Place, limit int) (with string, args postgres.Args) {
	if f.From.After(after.FailedAt) {
		after = Place{FailedAt: f.From}
	}
	f.From = time.Time{}
	args = postgres.Args{"after_time": after.FailedAt, "after_id": after.ID, "limit": limit}
	times, kind, one := f.times("failed_at"), f.kind("code"), f.one()
	for _, c := range []conditions{times, kind, one} {
		maps.Copy(args, c.args)
	}
	if len(one.sql) > 0 {
		// Few rows match. So the query reads these first, and then chooses those that have failed.
		return `
WITH few AS MATERIALIZED (
  SELECT id, event_key, coalesce(failure_code, '') AS code, failed_at FROM outbox_queue WHERE true` + one.sqlAfter() + `
), found AS MATERIALIZED (
  SELECT id, failed_at FROM few WHERE failed_at IS NOT NULL AND ` + afterSQL + kind.sqlAfter() + times.sqlAfter() + `
  ORDER BY failed_at, id LIMIT @limit
)`, args
	}
	return kindsSQL + `, found AS MATERIALIZED (
  SELECT q.id, q.failed_at FROM (SELECT * FROM kinds WHERE true` + kind.sqlAfter() + `) k, LATERAL (
    SELECT id, failed_at FROM outbox_queue WHERE ` + ofKindSQL + ` AND ` + afterSQL + times.sqlAfter() + `
    ORDER BY coalesce(failure_code, ''), event_key, failed_at, id LIMIT @limit) q
  ORDER BY q.failed_at, q.id LIMIT @limit
)`, args
}

// failedColumns are entryColumns of failed events.
const failedColumns = `q.id, q.event_key, q.aggregate_type, q.aggregate_id, q.aggregate_version, 'failed' AS status, q.retry_count,
  q.failure_code, q.failure_reason, e.created_at, NULL::timestamptz AS published_at, q.failed_at,
  extract(epoch FROM now() - q.failed_at)::float8 AS age`

// createdSQL finds the time of creation, which is in the log.
const createdSQL = `LATERAL (SELECT created_at FROM outbox_events WHERE id = q.id LIMIT 1) e`

// FindFailed returns at most limit failed events after a place, in the order of their failures.
func (o *Operator) FindFailed(ctx context.Context, f Filter, after Place, limit int) ([]Entry, error) {
	with, args := f.failed(after, limit)
	query := with + `
SELECT ` + failedColumns + ` FROM found JOIN outbox_queue q USING (id), ` + createdSQL + `
ORDER BY q.failed_at, q.id`
	entries, err := readIndexed(ctx, o, query, args, pgx.RowToStructByName[Entry])
	if err != nil {
		return nil, fmt.Errorf("looking for failed events: %w", err)
	}
	return entries, nil
}

// pageOfFailed returns the query for at most limit failed events, in the order of their ids.
func (f Filter) pageOfFailed(after uuid.UUID, limit int) (query string, args postgres.Args) {
	args = postgres.Args{"after": after, "limit": limit}
	query = `
SELECT ` + failedColumns + ` FROM (SELECT * FROM outbox_queue WHERE failed_at IS NOT NULL AND id > @after`
	for _, c := range []conditions{f.one(), f.kind("failure_code"), f.times("failed_at")} {
		query += c.sqlAfter()
		maps.Copy(args, c.args)
	}
	return query + ` ORDER BY id LIMIT @limit) q, ` + createdSQL + ` ORDER BY q.id`, args
}

// Choice has the failed events that a filter selects at one moment.
type Choice struct {
	IDs      []uuid.UUID // the first ones
	Matching int         // how many match
	More     bool        // Matching is a limit, and more match
	At       time.Time   // the moment, by the database's clock
}

// maxMatching limits how many matching events are counted.
const maxMatching = 50_000

// Choose returns the ids of the failed events that f selects, at most limit, in the order of
// their failures.
func (o *Operator) Choose(ctx context.Context, f Filter, limit int) (c Choice, err error) {
	with, args := f.failed(Place{}, maxMatching+1)
	query := with + `
SELECT ARRAY(SELECT id FROM found ORDER BY failed_at, id LIMIT @first) AS ids, (SELECT count(*)::int FROM found) AS matching,
       false AS more, now() AS at`
	args["first"] = limit
	chosen, err := readIndexed(ctx, o, query, args, pgx.RowToStructByName[Choice])
	if err != nil {
		return Choice{}, fmt.Errorf("choosing failed events: %w", err)
	}
	if c = chosen[0]; c.Matching > maxMatching {
		c.Matching, c.More = maxMatching, true
	}
	return c, nil
}

// FailureGroup is how many events have failed with one reason and key.
type FailureGroup struct {
	FailureCode string // "": unknown
	EventKey    string
	Count       int
	More        bool      // Count is a limit, and there are more
	OldestSince time.Time // when the first of them failed
}

// Limits of the groups.
const (
	maxGroups   = 100
	maxPerGroup = 10_000
)

const groupsSQL = kindsSQL + `
SELECT k.code AS failure_code, k.event_key::text AS event_key, false AS more,
       (SELECT count(*)::int FROM (SELECT FROM outbox_queue WHERE ` + ofKindSQL + ` LIMIT @count) c) AS count,
       (SELECT failed_at FROM outbox_queue WHERE ` + ofKindSQL + `
        ORDER BY coalesce(failure_code, ''), event_key, failed_at LIMIT 1) AS oldest_since
FROM (SELECT * FROM kinds LIMIT @groups) k`

// Failures returns the groups of failed events, and whether there are more than it returns. It
// counts at most 10,000 events of each.
func (o *Operator) Failures(ctx context.Context) (groups []FailureGroup, more bool, err error) {
	args := postgres.Args{"count": maxPerGroup + 1, "groups": maxGroups + 1}
	groups, err = readIndexed(ctx, o, groupsSQL, args, pgx.RowToStructByName[FailureGroup])
	if err != nil {
		return nil, false, fmt.Errorf("grouping failed events: %w", err)
	}
	for i := range groups {
		if g := &groups[i]; g.Count > maxPerGroup {
			g.Count, g.More = maxPerGroup, true
		}
	}
	if len(groups) > maxGroups {
		return groups[:maxGroups], true, nil
	}
	return groups, false, nil
}

// readIndexed reads in one snapshot, and only by indexes.
func readIndexed[T any](ctx context.Context, o *Operator, query string, args postgres.Args, scan pgx.RowToFunc[T]) (rows []T, err error) {
	err = o.inSnapshot(ctx, func(tx *postgres.Tx) error {
		if err := tx.UseIndexes(); err != nil {
			return err
		}
		rows, err = postgres.Read(ctx, tx, query, args, scan)
		return err
	})
	return rows, err
}
