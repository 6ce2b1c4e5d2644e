package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// lockTimeoutSQL bounds each wait of a deletion for a lock: a person, or another tool, may lock the
// log or a row of it. While a deletion waits, it holds rows of outbox_done, and late confirms wait
// for these.
const lockTimeoutSQL = `SELECT set_config('lock_timeout', '100ms', true)`

// deleteSQL deletes a page of events that were done longer ago than the retention. It begins after
// a place in the index of outbox_done, and skips locked rows. What is in the queue when it begins
// stays: a person has put it there again.
const deleteSQL = `
WITH page AS MATERIALIZED (
  SELECT id, done_at FROM outbox_done
  WHERE (done_at, id) > (cast(@done_at AS timestamptz), cast(@id AS uuid))
    AND done_at < now() - cast(@retention AS float8) * interval '1 second'
  ORDER BY done_at, id LIMIT @limit FOR UPDATE SKIP LOCKED
), old AS MATERIALIZED (
  SELECT id FROM page p WHERE (SELECT id FROM outbox_queue WHERE id = p.id) IS NULL
), events AS (
  DELETE FROM outbox_events WHERE id = ANY (ARRAY(SELECT id FROM old))
), done AS (
  DELETE FROM outbox_done WHERE id = ANY (ARRAY(SELECT id FROM old))
), last AS (
  SELECT done_at, id FROM page ORDER BY done_at DESC, id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page) AS found,
       coalesce((SELECT done_at FROM last), cast(@done_at AS timestamptz)) AS done_at, coalesce((SELECT id FROM last), cast(@id AS uuid)) AS id`

// deletePage is how many events one transaction deletes. If they are small, it takes about 20 ms.
const (
	deletePage = 1000
	mostHalved = 9 // then a page is one event
)

// place is where a deletion goes on in the index of outbox_done. What it has deleted is before that
// place. As long as somebody holds an old snapshot, such as a dump, the index has an entry for each
// of these, and a deletion from the front would read all of them.
type place struct {
	doneAt time.Time
	id     uuid.UUID
	begun  time.Time // when a deletion began at the front, by the clock of this process
	halved int       // how often its pages were halved: after each error, so that one takes less time
}

// placeAge is when a deletion begins at the front again, for the events that were locked, or in the
// queue.
const placeAge = time.Hour

// deleteOld deletes all events that were done longer ago than the retention, page by page. After
// each page it waits for as long as the page took, so it uses at most half of the time of one
// connection. It ends after a minute, so that the janitor does its other work, and returns where
// the next one goes on. If it fails at the front, the next one goes on where this one would have
// without placeAge: perhaps the front has too many dead entries.
func (s *Store) deleteOld(ctx context.Context, retention time.Duration, p place) (place, error) {
	from := p
	if time.Since(p.begun) > placeAge {
		from, p.begun = place{}, time.Now()
	}
	for end := time.Now().Add(time.Minute); ; from = p {
		begin, limit, found, next := time.Now(), deletePage>>p.halved, 0, p
		err := s.together(ctx,
			statement{doing: "bounding the waits for locks", sql: lockTimeoutSQL},
			statement{
				"deleting a page", deleteSQL,
				args{"done_at": from.doneAt, "id": from.id, "retention": retention.Seconds(), "limit": limit},
				rowInto(&found, &next.doneAt, (*[16]byte)(&next.id)),
			})
		if err != nil {
			p.halved = min(p.halved+1, mostHalved)
			return p, fmt.Errorf("deleting old events: %w", err)
		}
		next.halved = max(p.halved-1, 0)
		if p = next; found < limit || begin.After(end) {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, nil
		case <-time.After(time.Since(begin)):
		}
	}
}
