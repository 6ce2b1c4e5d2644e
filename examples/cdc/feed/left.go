package feed

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// Left is the outbox of the ordinary relay that runs beside the feed. It claims only if the feed
// has left an event to it. Otherwise this relay would claim new events before the feed, and reading
// the log would be useless.
type Left struct {
	*outbox.Store
	db  *postgres.DB
	age time.Duration
}

// NewLeft returns the outbox for events that have been due for longer than age.
func NewLeft(store *outbox.Store, db *postgres.DB, age time.Duration) *Left {
	return &Left{store, db, age}
}

// leftSQL looks for an event that the feed does not claim: it has been due for longer than age, or
// an attempt to publish it has failed.
const leftSQL = `
SELECT EXISTS (
  SELECT FROM outbox_queue
  WHERE available_at <= now() AND available_at < 'infinity'
    AND (available_at <= now() - @age * interval '1 second' OR failure_code IS NOT NULL)
    AND id NOT IN (SELECT unnest(events) FROM outbox_claims WHERE until > now()))`

// Claim claims due events, if the feed has left one of them.
func (l *Left) Claim(ctx context.Context, worker string, limit int, lease time.Duration) (outbox.Claim, error) {
	var left []bool
	err := l.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		_ = tx.UseIndexes()
		return postgres.Collect(tx, &left, "looking for events that were left", leftSQL,
			postgres.Args{"age": l.age.Seconds()}, pgx.RowTo[bool])
	})
	if err != nil || !left[0] {
		return outbox.Claim{}, err
	}
	return l.Store.Claim(ctx, worker, limit, lease)
}
