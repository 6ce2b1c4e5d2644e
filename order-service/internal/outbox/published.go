package outbox

import (
	"context"
	"fmt"
	"time"
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

func (w Window) args(after Position) map[string]any {
	return map[string]any{
		"since": w.Since, "until": w.Until, "event_key": w.EventKey,
		"type": after.AggregateType, "aggregate": after.AggregateID, "version": after.AggregateVersion,
	}
}

const windowSQL = `
WHERE status = 'published' AND published_at >= @since AND published_at < @until AND @event_key IN ('', event_key)
  AND (aggregate_type, aggregate_id, aggregate_version) > (@type, @aggregate, @version)`

// publishedSQL pages by order and version, along the index outbox_events_history. So each order's
// events come in the order of their versions, whatever the clocks said, and all pages together
// read the table once.
const publishedSQL = `
SELECT id, event_key, payload, traceparent, retry_count, created_at,
       aggregate_type, aggregate_id, aggregate_version, published_at,
       extract(epoch FROM now() - created_at)::float8 AS age
FROM outbox_status` + windowSQL + `
ORDER BY aggregate_type, aggregate_id, aggregate_version LIMIT @limit`

// Published returns at most limit events of w after a position, ordered by position. The zero position is
// before all events.
func (o *Operator) Published(ctx context.Context, w Window, after Position, limit int) ([]Published, error) {
	args := w.args(after)
	args["limit"] = limit
	var events []Published
	if err := o.read(ctx, &events, publishedSQL, args); err != nil {
		return nil, fmt.Errorf("reading published events: %w", err)
	}
	return events, nil
}

// CountPublished returns how many events of w there are after a position.
func (o *Operator) CountPublished(ctx context.Context, w Window, after Position) (n int, err error) {
	if err := o.read(ctx, &n, "SELECT count(*) FROM outbox_status"+windowSQL, w.args(after)); err != nil {
		return 0, fmt.Errorf("counting published events: %w", err)
	}
	return n, nil
}
