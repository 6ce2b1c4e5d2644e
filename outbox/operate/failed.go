package operate

import (
	"context"
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

const afterSQL = `(failed_at, id) > (cast(@after_time AS timestamptz), cast(@after_id AS uuid)) AND failed_at < cast(@before AS timestamptz)`

// failed returns a WITH clause that selects failed events. Its table found has at most limit events
// after a cursor, in the order of their failures. If f.From is later than the cursor, it replaces
// the cursor: with two lower bounds, PostgreSQL would begin to read the index at the first one.
func (f Filter) failed(after Cursor, limit int) (with string, a args) {
	if f.From.After(after.FailedAt) {
		after = Cursor{FailedAt: f.From}
	}
	a = f.args()
	a["after_time"], a["after_id"], a["limit"] = after.FailedAt, after.ID.String(), limit
	condition, few := f.few()
	if condition == "" {
		return kindsSQL + `, found AS MATERIALIZED (
  SELECT q.id, q.failed_at FROM (SELECT * FROM kinds WHERE ` + kindSQL + `) k, LATERAL (
    SELECT id, failed_at FROM outbox_queue WHERE ` + ofKindSQL + ` AND ` + afterSQL + `
    ORDER BY coalesce(failure_code, ''), topic, failed_at, id LIMIT @limit) q
  ORDER BY q.failed_at, q.id LIMIT @limit
)`, a
	}
	// Few rows match. So the query reads these first, and then chooses those that have failed.
	maps.Copy(a, few)
	return `
WITH few AS MATERIALIZED (
  SELECT id, topic, coalesce(failure_code, '') AS code, failed_at FROM outbox_queue WHERE ` + condition + `
), found AS MATERIALIZED (
  SELECT id, failed_at FROM few WHERE ` + kindSQL + ` AND ` + afterSQL + ` ORDER BY failed_at, id LIMIT @limit
)`, a
}

// Failed returns at most limit failed events after a cursor, in the order of their failures.
func (o *Operator) Failed(ctx context.Context, f Filter, after Cursor, limit int) ([]Event, error) {
	with, a := f.failed(after, limit)
	return o.events(ctx, "looking for failed events", with+`
SELECT `+eventColumns+` FROM found i `+stateSQL+` ORDER BY i.failed_at, i.id`, a)
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
func (o *Operator) Choose(ctx context.Context, f Filter, limit int) (Choice, error) {
	with, a := f.failed(Cursor{}, maxMatching+1)
	a["first"], a["most"] = limit, maxMatching
	return readOne(ctx, o.store, "choosing failed events", with+`
SELECT ARRAY(SELECT id FROM found ORDER BY failed_at, id LIMIT @first) AS ids,
       least(n, @most)::int AS matching, n > @most AS more, now() AS at
FROM (SELECT count(*) AS n FROM found) counted`, a, pgx.RowToStructByName[Choice])
}

// FailureGroup is how many events have failed with one reason and topic.
type FailureGroup struct {
	FailureCode string // "": unknown
	Topic       string
	Count       int
	More        bool      // Count is a limit, and there are more
	OldestSince time.Time // when the first of them failed
}

const (
	maxGroups   = 100
	maxPerGroup = 10_000
)

const groupsSQL = kindsSQL + `
SELECT k.code AS failure_code, k.topic, least(n, @most)::int AS count, n > @most AS more,
       (SELECT failed_at FROM outbox_queue WHERE ` + ofKindSQL + `
        ORDER BY coalesce(failure_code, ''), topic, failed_at LIMIT 1) AS oldest_since
FROM (SELECT * FROM kinds LIMIT @groups) k,
     LATERAL (SELECT count(*) AS n FROM (SELECT FROM outbox_queue WHERE ` + ofKindSQL + ` LIMIT @most + 1) c) counted`

// Failures returns the groups of failed events, and whether there are more than it returns. It
// counts at most 10,000 events of each.
func (o *Operator) Failures(ctx context.Context) (groups []FailureGroup, more bool, err error) {
	a := args{"most": maxPerGroup, "groups": maxGroups + 1}
	groups, err = read(ctx, o.store, "grouping failed events", groupsSQL, a, pgx.RowToStructByName[FailureGroup])
	if len(groups) > maxGroups {
		return groups[:maxGroups], true, err
	}
	return groups, false, err
}
