package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Window selects published events by the time of their publishing.
type Window struct {
	Since, Until time.Time // exclusive
	Topic        string    // "" is any
}

func (w Window) args() args { return args{"since": w.Since, "until": w.Until} }

const inWindowSQL = `published_at >= cast(@since AS timestamptz) AND published_at < cast(@until AS timestamptz)`

// Range says between which ids the events of a window are.
type Range struct {
	Events      int       // how many there are
	First, Last uuid.UUID // the smallest and the greatest id, also of other topics
}

// rangeSQL reads the BRIN index of published_at, which no condition on the id can replace: found is
// computed before the id is looked at. PostgreSQL before 18 has no min(uuid).
const rangeSQL = `
WITH found AS MATERIALIZED (
  SELECT id, slot FROM outbox_published WHERE ` + inWindowSQL + `
), wanted AS MATERIALIZED (
  SELECT id, slot FROM found WHERE id > cast(@after AS uuid)
)
SELECT (SELECT count(*)::int FROM wanted w WHERE cast(@topic AS text) IN ('', (
          SELECT topic FROM outbox_events WHERE id = w.id AND slot = w.slot LIMIT 1))) AS events,
       coalesce(min(id::text)::uuid, cast(@after AS uuid)) AS first, coalesce(max(id::text)::uuid, cast(@after AS uuid)) AS last
FROM wanted`

// PublishedRange returns the range of the events of w after an id. It finds them by the index of
// published_at, so it does not read the whole log.
func (o *Operator) PublishedRange(ctx context.Context, w Window, after uuid.UUID) (Range, error) {
	a := w.args()
	a["after"], a["topic"] = after.String(), w.Topic
	found, err := readByBitmap(ctx, o.store, rangeSQL, a, pgx.RowToStructByName[Range])
	if err != nil {
		return Range{}, fmt.Errorf("counting published events: %w", err)
	}
	return found[0], nil
}

// pageSQL is a page of the published events, in the order of their ids, merged from all slots. The
// limit is inside, so that a page costs the same wherever the window is.
const pageSQL = `
WITH page AS MATERIALIZED (
  SELECT id, published_at FROM outbox_published
  WHERE id > cast(@after AS uuid) AND id >= cast(@first AS uuid) AND id <= cast(@last AS uuid)
  ORDER BY id LIMIT @limit
)
SELECT (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last,
       ARRAY(SELECT DISTINCT id FROM page WHERE ` + inWindowSQL + `) AS wanted`

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
  CROSS JOIN LATERAL (SELECT id FROM outbox_published WHERE id = e.id AND ` + inWindowSQL + ` LIMIT 1) p
  UNION ALL
  SELECT id, NULL, id FROM page WHERE aggregate IS NULL
)
SELECT ` + stateColumns + `, ` + contentColumns + `
FROM (SELECT * FROM events WHERE first_id > cast(@after AS uuid)) i ` + stateSQL + `
  AND cast(@topic AS text) IN ('', e.topic)
ORDER BY i.first_id, i.version`

// Published returns a page of the events of a range, with their payloads: those after an id. Next
// is the id after which the next page begins, or [uuid.Nil] after the last page. All pages
// together return each event once, and the events of each aggregate in the order of their
// versions. A page reads limit events. It may return fewer, even none, or more: it returns all
// events of its aggregates.
func (o *Operator) Published(ctx context.Context, w Window, in Range, after uuid.UUID, limit int) (events []Event, next uuid.UUID, err error) {
	a := w.args()
	a["first"], a["last"], a["after"], a["limit"] = in.First.String(), in.Last.String(), after.String(), limit
	type page struct {
		Last   *uuid.UUID
		Wanted []uuid.UUID
	}
	pages, err := read(ctx, o.store, pageSQL, a, pgx.RowToStructByName[page])
	if err == nil && pages[0].Last == nil {
		return nil, uuid.Nil, nil
	}
	if err == nil && len(pages[0].Wanted) > 0 {
		a = w.args()
		a["ids"], a["after"], a["topic"] = store.IDs(pages[0].Wanted), after.String(), w.Topic
		events, err = o.readEvents(ctx, publishedSQL, a)
	}
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("reading published events: %w", err)
	}
	return events, *pages[0].Last, nil
}
