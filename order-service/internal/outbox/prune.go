package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// pruneSQL reads one page of old events, in the order of their ids, and deletes those that were
// published or discarded before the retention:
//
//   - an id is of UUID version 7 and begins with the time of its creation. So the primary key's
//     index finds the old events, and publishing has no other index to update;
//   - that time is by a replica's clock. It decides which events are read. The database's own
//     times decide which are deleted. If the replica's clock was slow, an event is read too
//     early and stays; if it was fast, the event is deleted later;
//   - events in a partition that is not old yet are dropped with it later. All older events are in
//     the default partition, or in one that could not be dropped;
//   - an id later than all partitions and the next hour comes from a wrong clock, or is of another
//     version. It is read as well, because its time may be years away;
//   - an event in the queue stays, however old it is;
//   - each event is looked up by its id, whatever statistics the planner has. "span" excludes
//     partitions; a list of ids does not;
//   - only one janitor runs at a time, so that two of them do not wait for each other.
const pruneSQL = `
WITH bound AS MATERIALIZED (
  SELECT least(outbox_first_id(now() - @retention * interval '1 second'),
               (SELECT first_id FROM outbox_partitions WHERE until > now() - @retention * interval '1 second' ORDER BY first_id LIMIT 1)) AS old,
         greatest(outbox_first_id(now() + interval '1 hour'),
                  (SELECT end_id FROM outbox_partitions ORDER BY end_id DESC LIMIT 1)) AS ahead
), page AS MATERIALIZED (
  SELECT id, created_at FROM (
    (SELECT id, created_at FROM outbox_events WHERE id > @after AND id < (SELECT old FROM bound) ORDER BY id LIMIT @limit)
    UNION ALL
    (SELECT id, created_at FROM outbox_events WHERE id > @after AND id >= (SELECT ahead FROM bound) ORDER BY id LIMIT @limit)
  ) candidates
  WHERE (SELECT pg_try_advisory_xact_lock(hashtext('outbox_prune')))
  ORDER BY id LIMIT @limit
), finished AS MATERIALIZED (
  SELECT id FROM page e
  WHERE (SELECT id FROM outbox_queue q WHERE q.id = e.id) IS NULL
    AND coalesce((SELECT published_at FROM outbox_published p WHERE p.id = e.id),
                 (SELECT discarded_at FROM outbox_discarded d WHERE d.id = e.id),
                 created_at) < now() - @retention * interval '1 second'
), span AS MATERIALIZED (
  SELECT (SELECT id FROM finished ORDER BY id LIMIT 1) AS first, (SELECT id FROM finished ORDER BY id DESC LIMIT 1) AS last
), published AS (
  DELETE FROM outbox_published WHERE id = ANY (ARRAY(SELECT id FROM finished))
    AND id BETWEEN (SELECT first FROM span) AND (SELECT last FROM span)
), discarded AS (
  DELETE FROM outbox_discarded WHERE id = ANY (ARRAY(SELECT id FROM finished))
), pruned AS (
  DELETE FROM outbox_events WHERE id = ANY (ARRAY(SELECT id FROM finished))
    AND id BETWEEN (SELECT first FROM span) AND (SELECT last FROM span)
  RETURNING id
)
SELECT (SELECT count(*) FROM pruned) AS pruned,
       (SELECT id FROM page ORDER BY id OFFSET @limit - 1) AS last`

// Prune reads limit old events with ids greater than after, and deletes those that were published
// or discarded longer than retention ago. It returns how many, and the id to continue from:
// [uuid.Nil] after the last page. Failed events stay until an operator decides.
func (s *Store) Prune(ctx context.Context, retention time.Duration, after uuid.UUID, limit int) (pruned int, last uuid.UUID, err error) {
	var page struct {
		Pruned int
		Last   uuid.NullUUID
	}
	args := map[string]any{"retention": retention.Seconds(), "after": after, "limit": limit}
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		_ = tx.UseIndexes() // Scan returns its error
		return tx.Gorm(ctx).Raw(pruneSQL, args).Scan(&page).Error
	})
	if err != nil {
		return 0, after, fmt.Errorf("pruning the outbox: %w", err)
	}
	return page.Pruned, page.Last.UUID, nil
}

// pruner remembers how far it has read. So old events that stay, such as failed ones, are read
// once in a round, and not before each batch.
type pruner struct {
	store     *Store
	retention time.Duration
	after     uuid.UUID
}

// maxKept limits how many events a pruner reads that have to stay. Then it waits for the next
// minute. So even millions of them cost little.
const maxKept = 20_000

// prune deletes limit events. It deletes fewer if there are no more, or if it has read maxKept
// events that stay.
func (p *pruner) prune(ctx context.Context, limit int) (pruned int, err error) {
	for kept := 0; pruned < limit && kept < maxKept; {
		n, last, err := p.store.Prune(ctx, p.retention, p.after, limit)
		if err != nil {
			return pruned, err
		}
		pruned += n
		kept += limit - n
		if p.after = last; last == uuid.Nil {
			break
		}
	}
	return pruned, nil
}
