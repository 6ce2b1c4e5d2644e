package operate

import (
	"context"
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

// idRange says between which ids the events of a window are.
type idRange struct {
	Events      int       // how many there are
	First, Last uuid.UUID // the smallest and the greatest id, also of other topics
}

// rangeSQL reads the BRIN index of published_at, which no condition on the id can replace: found is
// computed before the id is looked at. So it does not read the whole log. PostgreSQL before 18 has
// no min(uuid).
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
SELECT ` + contentColumns + `
FROM (SELECT * FROM events WHERE first_id > cast(@after AS uuid)) i ` + stateSQL + `
  AND cast(@topic AS text) IN ('', e.topic)
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
