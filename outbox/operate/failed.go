package operate

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A page's queries for failed events read the index outbox_queue_failures. It is ordered by
// reason, topic, time of the failure, and id. A kind is a pair of a reason and a topic. So the
// list of one kind is a range of the index, and the list of all kinds is merged from one range for
// each. No query counts or sorts all failed events: there may be a million.

// kindsSQL finds the kinds of the failed events. It looks at the index once for each kind, however
// many events the kind has.
const kindsSQL = `
WITH RECURSIVE kinds AS (
  (SELECT coalesce(failure_code, '') AS code, topic FROM outbox_queue
   WHERE failed_at IS NOT NULL ORDER BY coalesce(failure_code, ''), topic LIMIT 1)
  UNION ALL
  SELECT next.* FROM kinds k, LATERAL (
    SELECT coalesce(failure_code, '') AS code, topic FROM outbox_queue
    WHERE failed_at IS NOT NULL AND (coalesce(failure_code, ''), topic) > (k.code, k.topic)
    ORDER BY coalesce(failure_code, ''), topic LIMIT 1) next
)`

// ofKindSQL selects the failed events of a kind k.
const ofKindSQL = `failed_at IS NOT NULL AND coalesce(failure_code, '') = k.code AND topic = k.topic`

// Cursor is the place of a failed event in the order of the failures. The zero cursor is before
// all.
type Cursor struct {
	FailedAt time.Time
	ID       uuid.UUID
}

const afterSQL = `(failed_at, id) > (cast(@after_time AS timestamptz), cast(@after_id AS uuid))`

// failed returns a WITH clause that selects failed events. Its table found has at most limit events
// after a cursor, in the order of their failures. If f.From is later than the cursor, it replaces
// the cursor: with two lower bounds, PostgreSQL would begin to read the index at the first one.
func (f Filter) failed(after Cursor, limit int) (with string, a args) {
	if f.From.After(after.FailedAt) {
		after = Cursor{FailedAt: f.From}
	}
	f.From = time.Time{}
	a = args{"after_time": after.FailedAt, "after_id": after.ID.String(), "limit": limit}
	times, kind, one := f.times("failed_at"), f.kind(), f.one()
	for _, c := range []*conditions{times, kind, one} {
		maps.Copy(a, c.args)
	}
	if len(one.args) > 0 {
		// Few rows match. So the query reads these first, and then chooses those that have failed.
		return `
WITH few AS MATERIALIZED (
  SELECT id, topic, coalesce(failure_code, '') AS code, failed_at FROM outbox_queue WHERE true` + one.sql.String() + `
), found AS MATERIALIZED (
  SELECT id, failed_at FROM few WHERE failed_at IS NOT NULL AND ` + afterSQL + kind.sql.String() + times.sql.String() + `
  ORDER BY failed_at, id LIMIT @limit
)`, a
	}
	return kindsSQL + `, found AS MATERIALIZED (
  SELECT q.id, q.failed_at FROM (SELECT * FROM kinds WHERE true` + kind.sql.String() + `) k, LATERAL (
    SELECT id, failed_at FROM outbox_queue WHERE ` + ofKindSQL + ` AND ` + afterSQL + times.sql.String() + `
    ORDER BY coalesce(failure_code, ''), topic, failed_at, id LIMIT @limit) q
  ORDER BY q.failed_at, q.id LIMIT @limit
)`, a
}

// Failed returns at most limit failed events after a cursor, in the order of their failures.
func (o *Operator) Failed(ctx context.Context, f Filter, after Cursor, limit int) ([]Event, error) {
	with, a := f.failed(after, limit)
	events, err := o.readEvents(ctx, with+`
SELECT `+eventColumns+` FROM found i `+stateSQL+` ORDER BY i.failed_at, i.id`, a)
	if err != nil {
		return nil, fmt.Errorf("looking for failed events: %w", err)
	}
	return events, nil
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

// Choose returns the ids of the failed events that f selects, at most limit, in the order of their
// failures.
func (o *Operator) Choose(ctx context.Context, f Filter, limit int) (c Choice, err error) {
	with, a := f.failed(Cursor{}, maxMatching+1)
	a["first"] = limit
	chosen, err := read(ctx, o.store, with+`
SELECT ARRAY(SELECT id FROM found ORDER BY failed_at, id LIMIT @first) AS ids,
       (SELECT count(*)::int FROM found) AS matching, false AS more, now() AS at`, a, pgx.RowToStructByName[Choice])
	if err != nil {
		return Choice{}, fmt.Errorf("choosing failed events: %w", err)
	}
	if c = chosen[0]; c.Matching > maxMatching {
		c.Matching, c.More = maxMatching, true
	}
	return c, nil
}

// FailureGroup is how many events have failed with one reason and topic.
type FailureGroup struct {
	FailureCode string // "": unknown
	Topic       string
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
SELECT k.code AS failure_code, k.topic, false AS more,
       (SELECT count(*)::int FROM (SELECT FROM outbox_queue WHERE ` + ofKindSQL + ` LIMIT @count) c) AS count,
       (SELECT failed_at FROM outbox_queue WHERE ` + ofKindSQL + `
        ORDER BY coalesce(failure_code, ''), topic, failed_at LIMIT 1) AS oldest_since
FROM (SELECT * FROM kinds LIMIT @groups) k`

// Failures returns the groups of failed events, and whether there are more than it returns. It
// counts at most 10,000 events of each.
func (o *Operator) Failures(ctx context.Context) (groups []FailureGroup, more bool, err error) {
	a := args{"count": maxPerGroup + 1, "groups": maxGroups + 1}
	groups, err = read(ctx, o.store, groupsSQL, a, pgx.RowToStructByName[FailureGroup])
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
