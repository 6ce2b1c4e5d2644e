package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// Published is a published event, with all that is needed to publish it again.
type Published struct {
	Claimed
	AggregateType    string
	AggregateVersion int
	PublishedAt      time.Time
}

// Position is the event's place among the events of its order.
func (p Published) Position() Position {
	return Position{p.AggregateType, p.AggregateID, p.AggregateVersion}
}

// Window selects published events by the time of their publishing.
type Window struct {
	Since, Until time.Time // exclusive
	EventKey     string    // "" is any
}

func (w Window) args() map[string]any {
	return map[string]any{"since": w.Since, "until": w.Until, "event_key": w.EventKey}
}

// publishedPageSQL is a page of the published events, in the order of their ids. The limit is
// inside, so that a page costs the same wherever the window is.
const publishedPageSQL = `
SELECT id, published_at >= @since AND published_at < @until AS wanted FROM (
  SELECT id, published_at FROM outbox_published
  WHERE id > @after AND id BETWEEN @first AND @last
  ORDER BY id LIMIT @limit
) page`

// publishedSQL returns the events of a page, grouped by their orders. An order belongs to the page
// that has the smallest id of its events. That page returns all events of the order, by version.
// So each event comes once. The order of the ids alone would be wrong: each replica makes ids by
// its own clock, so a later version may have a smaller id.
const publishedSQL = `
WITH orders AS MATERIALIZED (
  SELECT DISTINCT aggregate_type, aggregate_id FROM outbox_events WHERE id = ANY (@page)
)
SELECT * FROM orders, LATERAL (
  SELECT id, event_key, payload, traceparent, retry_count, created_at, aggregate_version, published_at,
         extract(epoch FROM now() - created_at)::float8 AS age, first_value(id) OVER (ORDER BY id) AS first_id
  FROM outbox_events e JOIN outbox_published p USING (id)
  WHERE (e.aggregate_type, e.aggregate_id) = (orders.aggregate_type, orders.aggregate_id)
    AND published_at >= @since AND published_at < @until
) event
WHERE first_id > @after AND @event_key IN ('', event_key)
ORDER BY first_id, aggregate_version`

// Published returns a page of the events of a range: those after an id. Next is the id after which
// the next page begins, or [uuid.Nil] after the last page. All pages together return each event
// once, and the events of each order in the order of their versions. A page reads limit events. It
// may return fewer, even none, or more: it returns all events of its orders.
func (o *Operator) Published(ctx context.Context, w Window, in Range, after uuid.UUID, limit int) (events []Published, next uuid.UUID, err error) {
	err = o.inSnapshot(ctx, func(tx *postgres.Tx) error {
		args := w.args()
		args["first"], args["last"], args["after"], args["limit"] = in.First, in.Last, after, limit
		var page []struct {
			ID     uuid.UUID
			Wanted bool
		}
		if err := tx.Gorm(ctx).Raw(publishedPageSQL, args).Scan(&page).Error; err != nil || len(page) == 0 {
			return err
		}
		next = page[len(page)-1].ID
		var wanted []uuid.UUID
		for _, e := range page {
			if e.Wanted {
				wanted = append(wanted, e.ID)
			}
		}
		args["page"] = uuids(wanted)
		return tx.Gorm(ctx).Raw(publishedSQL, args).Scan(&events).Error
	})
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("reading published events: %w", err)
	}
	return events, next, nil
}

// Range says between which ids the events of a window are.
type Range struct {
	Events      int       // how many there are
	First, Last uuid.UUID // the smallest and the greatest id, also of other event keys
}

// PostgreSQL before 18 has no min(uuid).
const (
	rangeSQL = `
SELECT count(*) AS events, min(id::text)::uuid AS first, max(id::text)::uuid AS last FROM outbox_published
WHERE id > @after AND published_at >= @since AND published_at < @until`

	countKeySQL = `
SELECT count(*) FROM outbox_published JOIN outbox_events USING (id)
WHERE id BETWEEN @first AND @last AND published_at >= @since AND published_at < @until AND event_key = @event_key`
)

// PublishedRange returns the range of the events of w after an id. It finds them by the index of
// published_at, so it does not read the whole log.
func (o *Operator) PublishedRange(ctx context.Context, w Window, after uuid.UUID) (in Range, err error) {
	err = o.inSnapshot(ctx, func(tx *postgres.Tx) error {
		args := w.args()
		args["after"] = after
		if err := tx.Gorm(ctx).Raw(rangeSQL, args).Scan(&in).Error; err != nil || w.EventKey == "" {
			return err
		}
		args["first"], args["last"] = in.First, in.Last
		return tx.Gorm(ctx).Raw(countKeySQL, args).Scan(&in.Events).Error
	})
	if err != nil {
		return Range{}, fmt.Errorf("counting published events: %w", err)
	}
	return in, nil
}
