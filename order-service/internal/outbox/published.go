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
	Position
	PublishedAt time.Time
}

// Window selects published events by the time of their publishing.
type Window struct {
	Since, Until time.Time // exclusive
	EventKey     string    // "" is any
}

func (w Window) args() map[string]any {
	return map[string]any{"since": w.Since, "until": w.Until, "event_key": w.EventKey}
}

// publishedPageSQL is a page of the published events, in the order of their ids.
const publishedPageSQL = `
SELECT id FROM outbox_published
WHERE id > @after AND published_at >= @since AND published_at < @until
ORDER BY id LIMIT @limit`

// publishedSQL returns the events of the orders that a page is the first to have. So each order
// comes once, with all its events in the order of their versions, although the order of the ids
// may be different: each replica makes ids by its own clock.
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

// Published returns the next events of w after an id, and the id to go on after. All pages
// together read each event once, and the events of each order come in the order of their versions.
// A page looks at limit events; with an event key it may return fewer, even none. It returns more
// if further events of its orders follow. The id is [uuid.Nil] after the last page.
func (o *Operator) Published(ctx context.Context, w Window, after uuid.UUID, limit int) (events []Published, next uuid.UUID, err error) {
	err = o.inSnapshot(ctx, func(tx *postgres.Tx) error {
		args := w.args()
		args["after"], args["limit"] = after, limit
		var page []uuid.UUID
		if err := tx.Gorm(ctx).Raw(publishedPageSQL, args).Scan(&page).Error; err != nil || len(page) == 0 {
			return err
		}
		next = page[len(page)-1]
		args["page"] = uuids(page)
		return tx.Gorm(ctx).Raw(publishedSQL, args).Scan(&events).Error
	})
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("reading published events: %w", err)
	}
	return events, next, nil
}

const (
	countPublishedSQL = `
SELECT count(*) FROM outbox_published
WHERE id > @after AND published_at >= @since AND published_at < @until`

	countPublishedOfKeySQL = `
SELECT count(*) FROM outbox_published p JOIN outbox_events e USING (id)
WHERE id > @after AND published_at >= @since AND published_at < @until AND event_key = @event_key`
)

// CountPublished returns how many events of w have an id after this one. It reads the whole
// outbox_published, and for an event key the log.
func (o *Operator) CountPublished(ctx context.Context, w Window, after uuid.UUID) (n int, err error) {
	args, query := w.args(), countPublishedSQL
	args["after"] = after
	if w.EventKey != "" {
		query = countPublishedOfKeySQL
	}
	if err := o.read(ctx, &n, query, args); err != nil {
		return 0, fmt.Errorf("counting published events: %w", err)
	}
	return n, nil
}
