package operate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// Event is an event of the outbox with all that is known about its delivery.
type Event struct {
	ID                     uuid.UUID
	Seq                    int64  // the number of the event in this outbox
	Topic                  string // the name under which it pauses: destination/topic, or the topic
	Destination            string // "": the publisher's own
	Aggregate, AggregateID string // "": the event has no order
	Version                int
	Payload                []byte            // only from Show and Republication.Each
	Headers                map[string]string // only from Show and Republication.Each
	ContentType            string
	Traceparent            string // W3C trace context of the Append

	Status                     string
	RetryCount                 int
	FailureCode, FailureReason string    // of the last attempt; "" if none has failed
	Paused                     bool      // its topic is paused, and it waits for the end of the pause
	CreatedAt                  time.Time // zero if the event's row of the log is missing
	PublishedAt, FailedAt      *time.Time
	DiscardedAt                *time.Time // also if it was superseded
	DueAt                      *time.Time // nil: it is done, has failed, is paused, or waits for an older event
	Worker                     string     // that has claimed it, also if it is pending: a probe, or without an answer
	ClaimedUntil               *time.Time
	Age                        float64 // seconds since FailedAt, or CreatedAt if FailedAt is nil
}

// message returns the event as the service appID publishes it.
func (e Event) message(appID string) publish.Message {
	topic := e.Topic
	if e.Destination != "" {
		topic = strings.TrimPrefix(topic, e.Destination+"/")
	}
	return store.Event{
		ID: e.ID, Topic: topic, Destination: e.Destination, AggregateID: e.AggregateID, ContentType: e.ContentType,
		CreatedAt: e.CreatedAt, Headers: e.Headers, Traceparent: e.Traceparent, Payload: e.Payload,
	}.Message(appID)
}

// The statuses of an event.
const (
	Pending    = "pending"     // it is due, or due later, or waits for something
	InProgress = "in_progress" // a relay works on it
	Published  = "published"   // the destination has taken it
	Failed     = "failed"      // it waits for an operator, or for a newer event that supersedes it
	Discarded  = "discarded"   // an operator has given it up
	Superseded = "superseded"  // a newer event of its aggregate took its place, and it was not sent
)

// Statuses returns all statuses.
func Statuses() []string {
	return []string{Pending, InProgress, Published, Failed, Discarded, Superseded}
}

// stateSQL finds, for each id of a table i, what the other tables know about the event. It looks up
// one row at a time. So it does not matter what the planner believes about the sizes of the tables.
const stateSQL = `
LEFT JOIN LATERAL (SELECT * FROM outbox_queue WHERE id = i.id LIMIT 1) q ON true
LEFT JOIN LATERAL (SELECT * FROM outbox_done WHERE id = i.id AND q.id IS NULL LIMIT 1) d ON true
LEFT JOIN LATERAL (SELECT * FROM outbox_events WHERE id = i.id LIMIT 1) e ON true
LEFT JOIN LATERAL (SELECT worker, until FROM outbox_claims WHERE until > now() AND q.id = ANY (events) LIMIT 1) c ON true
WHERE coalesce(q.id, d.id) IS NOT NULL`

const (
	// stateColumns are the fields of an Event without its payload and headers. An event without its
	// row of the log has the creation time that is zero in Go.
	stateColumns = `
       i.id, coalesce(q.seq, e.seq, 0) AS seq, coalesce(q.topic, concat_ws('/', e.destination, e.topic)) AS topic, coalesce(e.destination, '') AS destination,
       coalesce(q.aggregate, e.aggregate, '') AS aggregate, coalesce(q.aggregate_id, e.aggregate_id, '') AS aggregate_id,
       coalesce(q.version, e.version, 0) AS version,
       coalesce(e.content_type, '') AS content_type, coalesce(e.traceparent, '') AS traceparent,
       CASE WHEN d.id IS NOT NULL THEN d.status
            WHEN q.failed_at IS NOT NULL THEN 'failed'
            WHEN c.worker IS NOT NULL AND NOT q.halted THEN 'in_progress'
            ELSE 'pending' END AS status,
       coalesce(d.retry_count, q.retry_count) AS retry_count,
       coalesce(d.failure_code, q.failure_code, '') AS failure_code,
       coalesce(d.failure_reason, q.failure_reason, '') AS failure_reason,
       q.id IS NOT NULL AND (q.halted OR q.failed_at IS NULL AND c.worker IS NULL AND ` + store.AllPausedSQL + `) AS paused,
       coalesce(e.created_at, timestamptz '0001-01-01 00:00Z') AS created_at,
       CASE d.status WHEN 'published' THEN d.done_at END AS published_at,
       coalesce(d.failed_at, q.failed_at) AS failed_at, CASE WHEN d.status <> 'published' THEN d.done_at END AS discarded_at,
       nullif(q.available_at, 'infinity') AS due_at, coalesce(c.worker, '') AS worker, c.until AS claimed_until,
       extract(epoch FROM now() - coalesce(d.failed_at, q.failed_at, e.created_at, now()))::float8 AS age`

	// eventColumns are the fields of an Event in a list.
	eventColumns = stateColumns + `, ''::bytea AS payload, NULL::json AS headers`

	// contentColumns have the headers as text. Append stores nothing else; a person may have.
	contentColumns = stateColumns + `, coalesce(e.payload, '') AS payload,
       CASE WHEN json_typeof(e.headers) = 'object'
            THEN (SELECT json_object_agg(key, value) FROM json_each_text(e.headers)) END AS headers`

	ofIDsSQL = ` FROM (SELECT DISTINCT unnest(cast(cast(@ids AS text) AS uuid[])) AS id) i ` + stateSQL + ` ORDER BY i.id`
)

// ErrNoEvent means that there is no such event: it was never committed, or it was published or
// discarded longer ago than the retention.
var ErrNoEvent = errors.New("no such event")

const getSQL = `SELECT ` + eventColumns + ofIDsSQL

// Get returns the events with these ids, ordered by id. It leaves out ids that do not exist.
func (o *Operator) Get(ctx context.Context, ids ...uuid.UUID) ([]Event, error) {
	return o.events(ctx, "reading events", getSQL, args{"ids": store.IDs(ids)})
}

func (o *Operator) events(ctx context.Context, doing, query string, a args) ([]Event, error) {
	return read(ctx, o.store, doing, query, a, pgx.RowToStructByName[Event])
}

// historySQL reads the events of an aggregate along an index of the log. A query of the view
// outbox_status would find the same; to plan it takes longer than to run this.
const historySQL = `
SELECT ` + eventColumns + ` FROM (
  SELECT id, version FROM outbox_events WHERE (aggregate, aggregate_id) = (@aggregate, @aggregate_id)
  ORDER BY aggregate, aggregate_id, version LIMIT @limit
) i ` + stateSQL + `
ORDER BY i.version`

// History returns the first limit events of one aggregate, in the order of their versions.
func (o *Operator) History(ctx context.Context, aggregate, id string, limit int) ([]Event, error) {
	a := args{"aggregate": aggregate, "aggregate_id": id, "limit": limit}
	return o.events(ctx, "reading the events of "+aggregate+" "+id, historySQL, a)
}

const ofTraceSQL = `
SELECT ` + eventColumns + ` FROM (
  SELECT id FROM (SELECT id, traceparent FROM outbox_events ORDER BY id DESC LIMIT @newest) newest
  WHERE substr(traceparent, 4, 32) = @trace LIMIT 1
) i ` + stateSQL

// OfTrace looks for a trace id among so many of the newest events, and returns the newest event
// that has it, or [ErrNoEvent]. The newest events are those with the greatest ids, which is true
// for ids of UUID version 7. There is no index of traces: each event would have to write it, and
// it would help only this search.
func (o *Operator) OfTrace(ctx context.Context, trace string, newest int) (Event, error) {
	found, err := o.events(ctx, "looking for a trace", ofTraceSQL, args{"trace": strings.ToLower(trace), "newest": newest})
	return only(found, err, ErrNoEvent)
}

// withTextSQL makes all bytes comparable as text: those that are not ASCII are written as numbers.
const withTextSQL = `
SELECT ` + eventColumns + ` FROM (
  SELECT id FROM (SELECT id, payload FROM outbox_events ORDER BY id DESC LIMIT @newest) newest
  WHERE strpos(lower(encode(payload, 'escape')), lower(encode(convert_to(@text, 'UTF8'), 'escape'))) > 0
  ORDER BY id DESC LIMIT @limit
) i ` + stateSQL + `
ORDER BY i.id DESC`

// WithText looks for a text in the payloads of so many of the newest events, and returns at most
// limit events that have it, the newest first. Capital letters do not matter. A payload may be
// about a person. So in the same transaction it records who has looked, and which events were
// found.
func (o *Operator) WithText(ctx context.Context, by By, text string, newest, limit int) (found []Event, err error) {
	err = inTx(ctx, o.store, "looking for a text in payloads", func(tx pgx.Tx) error {
		a := args{"text": clean(text), "newest": newest, "limit": limit}
		if found, err = collect(ctx, tx, withTextSQL, a, pgx.RowToStructByName[Event]); err != nil {
			return err
		}
		_, err = record(ctx, tx, by, Find, IDs(IDsOf(found)), true)
		return err
	})
	return found, err
}

// Detail is an event with its payload, and its place among the events of its aggregate.
type Detail struct {
	Event
	BlockedBy []Event // the aggregate's older events that it waits for, at most 100
	Waiting   int     // how many later events of the aggregate wait for it
}

// These two read the key of outbox_queue. An event without an aggregate has NULL, which equals
// nothing. An event that supersedes the older ones waits only for one that is in flight.
const (
	blockedBySQL = `
SELECT ` + eventColumns + ` FROM (
  SELECT id, version FROM outbox_queue
  WHERE (aggregate, aggregate_id) = (@aggregate, @aggregate_id) AND version < @version
    AND ((SELECT supersedes FROM outbox_queue WHERE id = @id) IS NOT TRUE
      OR id IN ` + store.LeasedIDsSQL + `)
  ORDER BY aggregate, aggregate_id, version LIMIT 100
) i ` + stateSQL + `
ORDER BY i.version`

	waitingSQL = `
SELECT count(*)::int FROM outbox_queue
WHERE (aggregate, aggregate_id) = (@aggregate, @aggregate_id) AND version > @version AND NOT supersedes`
)

// Show returns one event, or [ErrNoEvent].
func (o *Operator) Show(ctx context.Context, id uuid.UUID) (d Detail, err error) {
	found, err := o.events(ctx, "reading an event", `SELECT `+contentColumns+ofIDsSQL, args{"ids": store.IDs([]uuid.UUID{id})})
	d.Event, err = only(found, err, ErrNoEvent)
	if err != nil || d.PublishedAt != nil || d.DiscardedAt != nil {
		return d, err // it blocks nothing, and nothing blocks it
	}
	place := args{"aggregate": d.Aggregate, "aggregate_id": d.AggregateID, "version": d.Version}
	d.Waiting, err = readOne(ctx, o.store, "counting what an event blocks", waitingSQL, place, pgx.RowTo[int])
	if err == nil {
		place["id"] = id
		d.BlockedBy, err = o.events(ctx, "reading what blocks an event", blockedBySQL, place)
	}
	return d, err
}
