package outbox

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// An event that no queue is bound for waits for a route. There may be many of its key, and
// all would come back together, to be returned again. So only one of a key is due after a
// while: the probe. The others are parked, due at 'infinity'. When one of the key is
// confirmed, the relay brings a batch of them back, and after that batch the next one.
//
// That there is a probe is in the table, not in a relay's memory: it survives a crash, and
// all replicas share it. If it got lost, because a relay died between its confirm and the
// first batch, the janitor makes another one.

// unroutableSQL is true of an event that waits for a route, or is on its way to find out.
const unroutableSQL = `status = 'pending' AND failure_code = 'unroutable'`

// firstOfKeySQL is the earliest available_at of the events of key k that wait for a route. If
// there is a probe, it is the probe's. It is one look at the index, however many events wait.
const firstOfKeySQL = `SELECT available_at FROM outbox_events
    WHERE event_key = k.event_key AND ` + unroutableSQL + `
    ORDER BY event_key, available_at, seq LIMIT 1`

// bringBackSQL makes events of one key due, until limit of them are due and not claimed yet.
// Those that are due already count, so that one key cannot make the events of others wait.
// The rows are found by their ctid, as in claimSQL. With the index of unroutable events, each
// batch would read all the others.
const bringBackSQL = `
WITH first AS MATERIALIZED (
  SELECT ctid AS place, available_at FROM outbox_events
  WHERE event_key = @key AND ` + unroutableSQL + `
  ORDER BY event_key, available_at, seq LIMIT @limit
), waiting AS MATERIALIZED (
  SELECT ctid AS place FROM outbox_events
  WHERE ctid = ANY (ARRAY(SELECT place FROM first WHERE available_at > now())) AND ` + unroutableSQL + `
  FOR UPDATE SKIP LOCKED
)
UPDATE outbox_events SET available_at = now()
WHERE ctid = ANY (ARRAY(SELECT place FROM waiting))
RETURNING id`

// BringBack makes events of a key due that wait for a route, so that limit are due, and
// returns how many it brought back. What is parked behind them comes along.
func (s *Store) BringBack(ctx context.Context, key string, limit int) (int, error) {
	var ids []uuid.UUID
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		args := map[string]any{"key": key, "limit": limit}
		if err := tx.Gorm(ctx).Raw(bringBackSQL, args).Scan(&ids).Error; err != nil {
			return err
		}
		return unpark(tx, ids)
	})
	if err != nil {
		return 0, fmt.Errorf("bringing back events of the key %s: %w", key, err)
	}
	return len(ids), nil
}

// withoutProbeSQL steps from key to key along the index, so that it costs the same however
// many events wait. The first one of a key is the probe, or else there is none.
const withoutProbeSQL = `
WITH RECURSIVE keys AS (
  (SELECT event_key::text AS key, available_at FROM outbox_events WHERE ` + unroutableSQL + `
   ORDER BY event_key, available_at LIMIT 1)
  UNION ALL
  SELECT next.* FROM keys k, LATERAL (
    SELECT event_key::text AS key, available_at FROM outbox_events WHERE ` + unroutableSQL + ` AND event_key > k.key
    ORDER BY event_key, available_at LIMIT 1) next
)
SELECT key FROM keys WHERE available_at = 'infinity'`

// ProbeRoutes makes one event due for each key that has no probe, and returns how many. It does
// not see a probe that a relay has claimed, so a key may have two for a while.
func (s *Store) ProbeRoutes(ctx context.Context) (probes int, err error) {
	var keys []string
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error { return tx.Gorm(ctx).Raw(withoutProbeSQL).Scan(&keys).Error })
	if err != nil {
		return 0, fmt.Errorf("looking for keys without a probe: %w", err)
	}
	for _, key := range keys {
		n, err := s.BringBack(ctx, key, 1)
		if err != nil {
			return probes, err
		}
		probes += n
	}
	return probes, nil
}

func (s *Store) probeRoutes(ctx context.Context) {
	probes, err := s.ProbeRoutes(ctx)
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot probe for routes", "error", err)
	}
	if probes > 0 {
		slog.InfoContext(ctx, "events that wait for a route are tried again", "keys", probes)
	}
}
