package outbox

import (
	"context"
	"fmt"
	"log/slog"

	"example.com/transactional-outbox/internal/postgres"
)

// An event is unroutable if no queue is bound for its key: the broker returns it. There may be
// many of one key, and if all were retried, all would be returned again. So only one of each key
// is retried after a while: the probe. The others are parked. When the broker confirms an event of
// the key, the relay makes a batch of the others due, and the next batch after that one.
//
// The probe is a row in the table, not in a relay's memory: it survives a crash, and all replicas
// share it. If a relay dies between the probe's confirm and the first batch, no probe is left.
// Then the janitor chooses another one.

// unroutableSQL is true for an event that was returned, and has not been confirmed since.
const unroutableSQL = `failure_code = 'unroutable' AND failed_at IS NULL`

// firstOfKeySQL selects the earliest available_at of the unroutable events of key k that nobody has
// claimed. If there is a probe, it is the probe's. It reads one entry of the index, however many
// events there are.
const firstOfKeySQL = `SELECT available_at FROM outbox_queue
    WHERE event_key = k.event_key AND ` + unroutableSQL + ` AND id NOT IN ` + claimedIDsSQL + `
    ORDER BY event_key, available_at, seq LIMIT 1`

// retryUnroutableSQL makes events of one key due, until @limit of them are due and not claimed.
// Events that are due already count. So one key cannot delay the events of other keys. It updates
// rows by ctid: with the index of unroutable events, each batch would read all the others.
const retryUnroutableSQL = `
WITH first AS MATERIALIZED (
  SELECT ctid AS place, available_at FROM outbox_queue
  WHERE event_key = @key AND ` + unroutableSQL + ` AND id NOT IN ` + claimedIDsSQL + `
  ORDER BY event_key, available_at, seq LIMIT @limit
), waiting AS MATERIALIZED (
  SELECT ctid AS place FROM outbox_queue
  WHERE ctid = ANY (ARRAY(SELECT place FROM first WHERE available_at > now())) AND ` + unroutableSQL + `
  FOR UPDATE SKIP LOCKED
)
UPDATE outbox_queue SET available_at = now()
WHERE ctid = ANY (ARRAY(SELECT place FROM waiting))`

// RetryUnroutable makes parked events of a key due, so that limit of them are due. It returns how
// many it made due.
func (s *Store) RetryUnroutable(ctx context.Context, key string, limit int) (int, error) {
	n, err := s.exec(ctx, retryUnroutableSQL, map[string]any{"key": key, "limit": limit})
	if err != nil {
		return 0, fmt.Errorf("making events of the key %s due: %w", key, err)
	}
	return n, nil
}

// keysWithoutProbeSQL steps from key to key along the index. So it costs the same however many
// events there are. The first event of a key is the probe; if that one is parked, there is none.
const keysWithoutProbeSQL = `
WITH RECURSIVE keys AS (
  (SELECT event_key::text AS key, available_at FROM outbox_queue WHERE ` + unroutableSQL + `
   ORDER BY event_key, available_at LIMIT 1)
  UNION ALL
  SELECT next.* FROM keys k, LATERAL (
    SELECT event_key::text AS key, available_at FROM outbox_queue WHERE ` + unroutableSQL + ` AND event_key > k.key
    ORDER BY event_key, available_at LIMIT 1) next
)
SELECT key FROM keys WHERE available_at = 'infinity'`

// ProbeRoutes makes one event due for each key that has no probe, and returns how many.
func (s *Store) ProbeRoutes(ctx context.Context) (probes int, err error) {
	var keys []string
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error { return tx.Gorm(ctx).Raw(keysWithoutProbeSQL).Scan(&keys).Error })
	if err != nil {
		return 0, fmt.Errorf("looking for keys without a probe: %w", err)
	}
	for _, key := range keys {
		n, err := s.RetryUnroutable(ctx, key, 1)
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
		slog.InfoContext(ctx, "retrying unroutable events, one of each key", "keys", probes)
	}
}
