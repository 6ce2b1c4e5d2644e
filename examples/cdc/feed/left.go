package feed

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
)

// poll looks into the table for events that the log did not bring, or that cannot be published at
// once. It claims only if there is one. Otherwise it would claim new events before the feed, and
// reading the log would be useless.
type poll struct {
	interval time.Duration
	next     time.Time // when to look again
	first    bool      // it is the poll's turn
}

// leftSQL looks for an event that the feed does not claim: it has been due for longer than the
// interval, or an attempt to publish it has failed. While the relay has paused a topic, or brings
// its events back, every claim of the table does a part of that.
const leftSQL = `
SELECT EXISTS (
  SELECT FROM outbox_queue
  WHERE available_at <= now() AND available_at < 'infinity'
    AND (available_at <= now() - cast($1 AS float8) * interval '1 second' OR failure_code IS NOT NULL)
    AND id NOT IN (SELECT unnest(events) FROM outbox_claims WHERE until > now())
) OR EXISTS (SELECT FROM outbox_topics WHERE resumed OR until < 'infinity')`

// claimLeft claims due events from the table, if the feed has left one of them. While there are some,
// it looks again at once.
func (f *Feed) claimLeft(ctx context.Context, worker string, limit int, lease time.Duration) (c store.Claim, err error) {
	if !f.startPoll() {
		return c, nil
	}
	var left bool
	if err := f.pool.QueryRow(ctx, leftSQL, f.poll.interval.Seconds()).Scan(&left); err != nil {
		return c, fmt.Errorf("looking for events that were left: %w", err)
	}
	if left {
		c, err = f.Store.Claim(ctx, worker, limit, lease)
	}
	if err != nil || c.More || len(c.Events)+len(c.NoPayload) > 0 {
		f.pollNow()
	}
	return c, err
}

// startPoll reports whether it is time to look, and plans the next time.
func (f *Feed) startPoll() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.poll.next) {
		return false
	}
	f.poll.next = now.Add(f.poll.interval)
	return true
}

func (f *Feed) pollNow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.poll.next = time.Time{}
}
