package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// An event is unroutable if no queue is bound for its topic: the broker returns it. There may be
// many of one topic, and if all were retried, all would be returned again. So only one of each
// topic is retried after a while: the probe. The others are parked. When the broker confirms an
// event of the topic, the relay makes a batch of the others due, and the next batch after that one.
//
// The probe is a row in the table, not in a relay's memory: it survives a crash, and all replicas
// share it. If a relay dies between the probe's confirm and the first batch, no probe is left.
// Then the janitor chooses another one.

// unroutableSQL is true for an event that was returned, and has not been confirmed since.
const unroutableSQL = `failure_code = 'unroutable' AND failed_at IS NULL`

// firstOfTopicSQL selects the earliest available_at of the unroutable events of topic k that nobody
// has claimed. If there is a probe, it is the probe's. It reads one entry of the index, however
// many events there are.
const firstOfTopicSQL = `SELECT available_at FROM outbox_queue
    WHERE topic = k.topic AND ` + unroutableSQL + ` AND id NOT IN ` + claimedIDsSQL + `
    ORDER BY topic, available_at, seq LIMIT 1`

// retryUnroutableSQL makes events of one topic due, until @limit of them are due and not claimed.
// Events that are due already count. So one topic cannot delay the events of others. "waiting"
// finds each row by its id, locks it, and only then looks again whether it is unroutable: if the
// condition were beside the id, the plan might read all unroutable events for each of them.
const retryUnroutableSQL = `
WITH first AS MATERIALIZED (
  SELECT id, available_at FROM outbox_queue
  WHERE topic = @topic AND ` + unroutableSQL + ` AND id NOT IN ` + claimedIDsSQL + `
  ORDER BY topic, available_at, seq LIMIT @limit
), waiting AS MATERIALIZED (
  SELECT q.id FROM (SELECT id FROM first WHERE available_at > now()) f,
  LATERAL (SELECT id, failure_code, failed_at FROM outbox_queue WHERE id = f.id LIMIT 1 FOR UPDATE SKIP LOCKED) q
  WHERE ` + unroutableSQL + `
), retried AS (
  UPDATE outbox_queue SET available_at = now() WHERE id = ANY (ARRAY(SELECT id FROM waiting))
  RETURNING 1
)
SELECT count(*) FROM retried`

// RetryUnroutable makes parked events of a topic due, so that limit of them are due. It returns how
// many it made due.
func (s *Store) RetryUnroutable(ctx context.Context, topic string, limit int) (n int, err error) {
	values := args{"topic": topic, "limit": limit}
	if err = s.together(ctx, statement{"retrying", retryUnroutableSQL, values, rowInto(&n)}); err != nil {
		return 0, fmt.Errorf("making events of the topic %s due: %w", topic, err)
	}
	return n, nil
}

// topicsWithoutProbeSQL steps from topic to topic along the index. So it costs the same however
// many events there are. The first event of a topic is the probe; if that one is parked, there is
// none.
const topicsWithoutProbeSQL = `
WITH RECURSIVE topics AS (
  (SELECT topic, available_at FROM outbox_queue WHERE ` + unroutableSQL + `
   ORDER BY topic, available_at LIMIT 1)
  UNION ALL
  SELECT next.* FROM topics t, LATERAL (
    SELECT topic, available_at FROM outbox_queue WHERE ` + unroutableSQL + ` AND topic > t.topic
    ORDER BY topic, available_at LIMIT 1) next
)
SELECT topic FROM topics WHERE available_at = 'infinity'`

// ProbeRoutes makes one event due for each topic that has no probe, and returns how many.
func (s *Store) ProbeRoutes(ctx context.Context) (probes int, err error) {
	var topics []string
	err = s.together(ctx, statement{"probing", topicsWithoutProbeSQL, nil, rowsInto(&topics, pgx.RowTo[string])})
	if err != nil {
		return 0, fmt.Errorf("looking for topics without a probe: %w", err)
	}
	for _, topic := range topics {
		n, err := s.RetryUnroutable(ctx, topic, 1)
		if err != nil {
			return probes, err
		}
		probes += n
	}
	return probes, nil
}
