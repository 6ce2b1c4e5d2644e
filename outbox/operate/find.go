package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Filter selects events. A zero field selects any.
type Filter struct {
	Status      string
	Topic       string // as in Event
	FailureCode string
	Before      time.Time // failed before this time; an event that has not failed: created
	Newest      bool      // lists begin with the newest events
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
	if !f.Before.IsZero() {
		add("until", f.Before.UTC().Format(time.RFC3339Nano))
	}
	return strings.Join(flags, " ")
}

// kindSQL selects by topic and reason.
const kindSQL = `cast(@topic AS text) IN ('', topic) AND cast(@failure_code AS text) IN ('', code)`

func (f Filter) args() args {
	return args{"topic": f.Topic, "failure_code": f.FailureCode, "before": f.before()}
}

func (f Filter) before() time.Time {
	if f.Before.IsZero() {
		return endOfTime
	}
	return f.Before
}

// sources are the events of each status with what a filter asks for. Their ids are read along a
// primary key; what is in the log is looked up one by one. If there is no row of the log, an event
// of the queue still appears, with the creation time that is zero in Go.
var sources = map[string]string{
	Failed: `
SELECT id, topic, coalesce(failure_code, '') AS code, failed_at AS at FROM outbox_queue WHERE failed_at IS NOT NULL`,

	Pending: `
SELECT q.id, q.topic, coalesce(q.failure_code, '') AS code, coalesce(e.created_at, '0001-01-01 00:00Z') AS at FROM outbox_queue q
LEFT JOIN LATERAL (SELECT created_at FROM outbox_events WHERE id = q.id LIMIT 1) e ON true
WHERE q.failed_at IS NULL
  AND NOT (q.available_at <= now() AND q.id IN ` + store.LeasedIDsSQL + `)`,

	InProgress: `
SELECT q.id, q.topic, coalesce(q.failure_code, '') AS code, coalesce(e.created_at, '0001-01-01 00:00Z') AS at
FROM (SELECT unnest(events) AS id FROM outbox_claims WHERE until > now()) c
CROSS JOIN LATERAL (SELECT * FROM outbox_queue WHERE id = c.id AND available_at <= now() LIMIT 1) q
LEFT JOIN LATERAL (SELECT created_at FROM outbox_events WHERE id = q.id LIMIT 1) e ON true`,

	Published:  doneSQL + ` AND d.status = 'published'`,
	Discarded:  doneSQL + ` AND d.status = 'discarded'`,
	Superseded: doneSQL + ` AND d.status = 'superseded'`,
}

const doneSQL = `
SELECT d.id, concat_ws('/', e.destination, e.topic) AS topic, coalesce(d.failure_code, '') AS code,
       coalesce(d.failed_at, e.created_at) AS at
FROM outbox_done d
CROSS JOIN LATERAL (SELECT destination, topic, created_at FROM outbox_events WHERE id = d.id LIMIT 1) e
WHERE true`

// matching is the ids that a filter selects.
func (f Filter) matching() (query string, a args, err error) {
	source, known := sources[f.Status]
	if !known {
		return "", nil, fmt.Errorf("there is no status %q", f.Status)
	}
	return `SELECT id FROM (` + source + `) e WHERE ` + kindSQL + ` AND at < cast(@before AS timestamptz)`, f.args(), nil
}

// follows is the comparison and the order of what comes after something in a list.
func (f Filter) follows() (operator, order string) {
	if f.Newest {
		return "<", " DESC"
	}
	return ">", ""
}

// List returns at most limit events after the event with this id, or the first ones after
// [uuid.Nil], ordered by id. So all pages together read a table once. The ids are usually of UUID
// version 7: their order is about that of creation. The filter must have a status.
func (o *Operator) List(ctx context.Context, f Filter, after uuid.UUID, limit int) ([]Event, error) {
	matching, a, err := f.matching()
	if err != nil {
		return nil, err
	}
	if f.Newest && after == uuid.Nil {
		after = uuid.Max
	}
	a["after"], a["limit"] = after.String(), limit
	follows, order := f.follows()
	return o.events(ctx, "looking for "+f.Status+" events", `
WITH page AS MATERIALIZED (`+matching+` AND id `+follows+` cast(@after AS uuid) ORDER BY id`+order+` LIMIT @limit)
SELECT `+eventColumns+` FROM page i `+stateSQL+` ORDER BY i.id`+order, a)
}

// Count returns how many events f selects. It reads all of them.
func (o *Operator) Count(ctx context.Context, f Filter) (int, error) {
	matching, a, err := f.matching()
	if err != nil {
		return 0, err
	}
	return readOne(ctx, o.store, "counting "+f.Status+" events", "SELECT count(*)::int FROM ("+matching+") e", a, pgx.RowTo[int])
}

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

// failed returns a WITH clause that selects failed events. Its table found has at most limit events
// after a cursor, in the order of their failures. The newest first begin at Before: with two bounds
// at one end, PostgreSQL would begin to read the index at the first one.
func (f Filter) failed(after Cursor, limit int) (with string, a args) {
	if f.Newest && (after == Cursor{}) {
		after.FailedAt = f.before()
	}
	follows, order := f.follows()
	following, sorted := `(failed_at, id) `+follows+` (cast(@after_time AS timestamptz), cast(@after_id AS uuid))`, `failed_at`+order+`, id`+order
	a = args{"topic": f.Topic, "failure_code": f.FailureCode, "after_time": after.FailedAt, "after_id": after.ID.String(), "limit": limit}
	if !f.Newest {
		following += ` AND failed_at < cast(@before AS timestamptz)`
		a["before"] = f.before()
	}
	return kindsSQL + `, found AS MATERIALIZED (
  SELECT q.id, q.failed_at FROM (SELECT * FROM kinds WHERE ` + kindSQL + `) k, LATERAL (
    SELECT id, failed_at FROM outbox_queue WHERE ` + ofKindSQL + ` AND ` + following + `
    ORDER BY coalesce(failure_code, '')` + order + `, topic` + order + `, ` + sorted + ` LIMIT @limit) q
  ORDER BY ` + sorted + ` LIMIT @limit
)`, a
}

// Failed returns at most limit failed events after a cursor, in the order of their failures.
func (o *Operator) Failed(ctx context.Context, f Filter, after Cursor, limit int) ([]Event, error) {
	with, a := f.failed(after, limit)
	_, order := f.follows()
	return o.events(ctx, "looking for failed events", with+`
SELECT `+eventColumns+` FROM found i `+stateSQL+` ORDER BY i.failed_at`+order+`, i.id`+order, a)
}

// Matching is how many failed events a filter selects at one moment.
type Matching struct {
	Count int       // at most MaxDecided
	More  bool      // more match
	At    time.Time // the moment, by the database's clock
}

// Matching counts the failed events that f selects.
func (o *Operator) Matching(ctx context.Context, f Filter) (Matching, error) {
	with, a := f.failed(Cursor{}, MaxDecided+1)
	a["most"] = MaxDecided
	return readOne(ctx, o.store, "counting failed events", with+`
SELECT least(n, @most)::int AS count, n > @most AS more, now() AS at FROM (SELECT count(*) AS n FROM found) counted`,
		a, pgx.RowToStructByName[Matching])
}

// FailureGroup is how many events have failed with one reason and topic.
type FailureGroup struct {
	FailureCode string // "": unknown
	Topic       string
	Count       int
	More        bool      // Count is a limit, and there are more
	OldestSince time.Time // when the first of them failed
	Reason      string    // what the destination said about the last of them
}

const groupsSQL = kindsSQL + `
SELECT k.code AS failure_code, k.topic, least(n, @most)::int AS count, n > @most AS more,
       (SELECT failed_at FROM outbox_queue WHERE ` + ofKindSQL + `
        ORDER BY coalesce(failure_code, ''), topic, failed_at LIMIT 1) AS oldest_since,
       coalesce((SELECT failure_reason FROM outbox_queue WHERE ` + ofKindSQL + `
        ORDER BY coalesce(failure_code, '') DESC, topic DESC, failed_at DESC LIMIT 1), '') AS reason
FROM (SELECT * FROM kinds LIMIT @groups) k,
     LATERAL (SELECT count(*) AS n FROM (SELECT FROM outbox_queue WHERE ` + ofKindSQL + ` LIMIT @most + 1) c) counted`

// Failures returns the first 100 groups of failed events, and whether there are more. It counts at
// most 10,000 events of each.
func (o *Operator) Failures(ctx context.Context) (groups []FailureGroup, more bool, err error) {
	const maxGroups = 100
	a := args{"most": 10_000, "groups": maxGroups + 1}
	groups, err = read(ctx, o.store, "grouping failed events", groupsSQL, a, pgx.RowToStructByName[FailureGroup])
	if len(groups) > maxGroups {
		return groups[:maxGroups], true, err
	}
	return groups, false, err
}
