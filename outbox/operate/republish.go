package operate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// Window selects published events by the time of their publishing.
type Window struct {
	Since, Until time.Time // exclusive
	Topic        string    // as in Event; "" is any
}

func (w Window) args() args { return args{"since": w.Since, "until": w.Until} }

const inWindowSQL = `status = 'published' AND done_at >= cast(@since AS timestamptz) AND done_at < cast(@until AS timestamptz)`

// Republication sends published events again, each with its old id, for a destination that has lost
// its messages. It changes nothing in the outbox. It is safe to repeat, because consumers know the
// ids that they have had.
type Republication struct {
	Window Window
	After  uuid.UUID // the events up to here are done; a new republication can go on from here
	Total  int       // how many events it found
	Sent   int       // how many of them are done

	AppID          string        // the service that publishes the messages; each message has it
	ConfirmTimeout time.Duration // bounds the wait for the confirms of a batch; the default is 10 s

	operator *Operator
	in       idRange
	pageSize int
}

// republishPage is how many events are read and sent at once.
const republishPage = 500

// idRange says between which ids the events of a window are.
type idRange struct {
	Events      int       // how many there are
	First, Last uuid.UUID // the smallest and the greatest id, also of other topics
}

// rangeSQL reads the index of done_at, and not the whole log. PostgreSQL before 18 has no
// min(uuid).
const rangeSQL = `
WITH wanted AS MATERIALIZED (
  SELECT id FROM outbox_done WHERE ` + inWindowSQL + ` AND id > cast(@after AS uuid)
)
SELECT (SELECT count(*)::int FROM wanted w WHERE cast(@topic AS text) IN ('', (
          SELECT concat_ws('/', destination, topic) FROM outbox_events WHERE id = w.id LIMIT 1))) AS events,
       coalesce(min(id::text)::uuid, cast(@after AS uuid)) AS first, coalesce(max(id::text)::uuid, cast(@after AS uuid)) AS last
FROM wanted`

// Republish counts what was published in a window, and sends nothing yet. If after is not
// [uuid.Nil], it goes on after that event, or returns [ErrNoEvent] if there is no such event.
func (o *Operator) Republish(ctx context.Context, w Window, after uuid.UUID) (*Republication, error) {
	if after != uuid.Nil {
		found, err := o.Get(ctx, after)
		if _, err := only(found, err, ErrNoEvent); err != nil {
			return nil, err
		}
	}
	a := w.args()
	a["after"], a["topic"] = after.String(), w.Topic
	in, err := readOne(ctx, o.store, "counting published events", rangeSQL, a, pgx.RowToStructByName[idRange])
	if err != nil {
		return nil, err
	}
	return &Republication{Window: w, After: after, Total: in.Events, operator: o, in: in, pageSize: republishPage}, nil
}

// pageSQL is a page of what is done, in the order of the ids, and what is wanted of it. The limit
// is inside, so that a page costs the same wherever the window is.
const pageSQL = `
WITH page AS MATERIALIZED (
  SELECT id, status, done_at FROM outbox_done
  WHERE id > cast(@after AS uuid) AND id >= cast(@first AS uuid) AND id <= cast(@last AS uuid)
  ORDER BY id LIMIT @limit
)
SELECT (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last,
       ARRAY(SELECT id FROM page WHERE ` + inWindowSQL + `) AS wanted`

// publishedSQL returns the events of a page, grouped by their aggregates. An aggregate belongs to
// the page that has the smallest id of its events. That page returns all events of the aggregate,
// by version. So each event comes once. The order of the ids alone would be wrong: each process
// makes ids by its own clock, so a later version may have a smaller id. An event without an
// aggregate stands alone.
const publishedSQL = `
WITH page AS MATERIALIZED (
  SELECT e.id, e.aggregate, e.aggregate_id FROM (SELECT unnest(cast(cast(@ids AS text) AS uuid[])) AS id) i
  CROSS JOIN LATERAL (SELECT id, aggregate, aggregate_id FROM outbox_events WHERE id = i.id LIMIT 1) e
), events AS MATERIALIZED (
  SELECT e.id, e.version, first_value(e.id) OVER (PARTITION BY a.aggregate, a.aggregate_id ORDER BY e.id) AS first_id
  FROM (SELECT DISTINCT aggregate, aggregate_id FROM page WHERE aggregate IS NOT NULL) a
  CROSS JOIN LATERAL (SELECT id, version FROM outbox_events
                      WHERE (aggregate, aggregate_id) = (a.aggregate, a.aggregate_id) OFFSET 0) e
  CROSS JOIN LATERAL (SELECT id FROM outbox_done WHERE id = e.id AND ` + inWindowSQL + ` LIMIT 1) p
  UNION ALL
  SELECT id, NULL, id FROM page WHERE aggregate IS NULL
)
SELECT ` + contentColumns + `
FROM (SELECT * FROM events WHERE first_id > cast(@after AS uuid)) i ` + stateSQL + `
  AND cast(@topic AS text) IN ('', concat_ws('/', e.destination, e.topic))
ORDER BY i.first_id, i.version`

// read returns a page of the events, with their payloads. Next is the id after which the next page
// begins, or [uuid.Nil] after the last page. A page reads so many events. It may return fewer, even
// none, or more: it returns all events of its aggregates.
func (r *Republication) read(ctx context.Context) (events []Event, next uuid.UUID, err error) {
	a := r.Window.args()
	a["first"], a["last"], a["after"], a["limit"] = r.in.First.String(), r.in.Last.String(), r.After.String(), r.pageSize
	page, err := readOne(ctx, r.operator.store, "reading published events", pageSQL, a, pgx.RowToStructByName[struct {
		Last   *uuid.UUID
		Wanted []uuid.UUID
	}])
	if err != nil || page.Last == nil {
		return nil, uuid.Nil, err
	}
	if len(page.Wanted) > 0 {
		a = r.Window.args()
		a["ids"], a["after"], a["topic"] = store.IDs(page.Wanted), r.After.String(), r.Window.Topic
		events, err = r.operator.events(ctx, "reading published events", publishedSQL, a)
	}
	return events, *page.Last, err
}

// Each calls do with each page of events, and then counts the page as done. It sends nothing. It
// reads each event once, and the events of each aggregate in the order of their versions.
func (r *Republication) Each(ctx context.Context, do func(page []Event) error) error {
	for {
		page, next, err := r.read(ctx)
		if err != nil || next == uuid.Nil {
			return err
		}
		if len(page) > 0 {
			if err := do(page); err != nil {
				return err
			}
		}
		r.After, r.Sent = next, r.Sent+len(page)
	}
}

// Send sends all events in a session. Before each page it records that by is about to send it, and
// afterwards that it did. It sends an event when the destination has taken the one before it of the
// same aggregate. Done is called after each page; it may be nil. After an error, such as a
// [NotTakenError], After says where to go on.
func (r *Republication) Send(ctx context.Context, by By, to publish.Session, done func(page []Event) error) error {
	publisher, err := to.NewPublisher(republishPage)
	if err != nil {
		return err
	}
	defer publisher.Close()
	return r.Each(ctx, func(page []Event) error {
		row, err := r.operator.log.Begin(ctx, by, Republish, IDs(IDsOf(page)))
		if err != nil {
			return err
		}
		for _, part := range splitByVersion(page) {
			if err := unblocked(ctx, to); err != nil {
				return err
			}
			if err := r.publish(publisher, part); err != nil { //nolint:contextcheck // publish.All has a timeout
				return err // the row has no end: perhaps not all of these were sent
			}
		}
		if err := r.operator.log.Finish(ctx, row, len(page)); err != nil || done == nil {
			return err
		}
		return done(page)
	})
}

// unblocked waits until the destination does not ask its publishers to wait.
func unblocked(ctx context.Context, to publish.Session) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for to.Blocked() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return ctx.Err()
}

// publish publishes events of different aggregates.
func (r *Republication) publish(publisher publish.Publisher, part []Event) error {
	messages := make([]publish.Message, 0, len(part))
	for _, e := range part {
		messages = append(messages, e.message(r.AppID))
	}
	for i, result := range publish.All(publisher, messages, cmp.Or(r.ConfirmTimeout, 10*time.Second)) {
		if result.Outcome != publish.Confirmed {
			return &NotTakenError{messages[i].ID, part[i].Topic, result}
		}
	}
	return nil
}

// NotTakenError is a message that the destination has not taken.
type NotTakenError struct {
	ID, Topic string
	publish.Result
}

func (e *NotTakenError) Error() string {
	return fmt.Sprintf("%s (%s) was not taken: %v", e.ID, e.Topic, e.Err)
}

func (e *NotTakenError) Unwrap() error { return e.Err }

// splitByVersion splits a page so that no part has two events of one aggregate. So if the
// destination does not take an event, the next event of its aggregate is not sent before it.
func splitByVersion(page []Event) (parts [][]Event) {
	nth := 0
	for i, e := range page {
		if i > 0 && e.Aggregate != "" && page[i-1].Aggregate == e.Aggregate && page[i-1].AggregateID == e.AggregateID {
			nth++
		} else {
			nth = 0
		}
		if nth == len(parts) {
			parts = append(parts, nil)
		}
		parts[nth] = append(parts[nth], e)
	}
	return parts
}
