package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/postgres"
)

// pruneSQL looks at one page of events, in the order of their ids, and deletes those that
// were finished long ago:
//
//   - an id is of version 7 and begins with the time of its creation. So the index of the
//     primary key leads to the old events, and no further index is kept up at each publish;
//   - that time is of a replica's clock. It decides what is looked at, and the database's
//     own times decide what is deleted. With a slow clock an event is looked at in vain,
//     with a fast one it is deleted later;
//   - an id from beyond the next hour is of a wrong clock, or of another version. It is
//     looked at as well: its time may be years away;
//   - SKIP LOCKED lets the janitors of several replicas share the work.
var pruneSQL = `
WITH page AS MATERIALIZED (
  SELECT id FROM (
    SELECT id FROM outbox_events WHERE id > @after AND id < ` + firstIDSQL("now() - @retention * interval '1 second'") + `
    UNION ALL
    SELECT id FROM outbox_events WHERE id > @after AND id > ` + firstIDSQL("now() + interval '1 hour'") + `
  ) candidates
  ORDER BY id LIMIT @limit
), finished AS MATERIALIZED (
  SELECT id FROM outbox_events
  WHERE id = ANY (ARRAY(SELECT id FROM page)) AND status IN ('published', 'discarded')
    AND coalesce(published_at, failed_at) < now() - @retention * interval '1 second'
  FOR UPDATE SKIP LOCKED
), pruned AS (
  DELETE FROM outbox_events WHERE id = ANY (ARRAY(SELECT id FROM finished))
  RETURNING id
)
SELECT (SELECT count(*) FROM pruned) AS pruned,
       (SELECT id FROM page ORDER BY id OFFSET @limit - 1) AS last`

// firstIDSQL is the least id of version 7 of a time.
func firstIDSQL(time string) string {
	return "rpad(lpad(to_hex((extract(epoch FROM " + time + ") * 1000)::bigint), 12, '0'), 32, '0')::uuid"
}

// Prune looks at limit old events with ids beyond after, and deletes those of them that
// were published or discarded longer than retention ago. It returns how many, and the id
// to go on from: [uuid.Nil] after the last page. Failed events stay until somebody decides.
func (s *Store) Prune(ctx context.Context, retention time.Duration, after uuid.UUID, limit int) (pruned int, last uuid.UUID, err error) {
	var page struct {
		Pruned int
		Last   uuid.NullUUID
	}
	args := map[string]any{"retention": retention.Seconds(), "after": after, "limit": limit}
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error { return tx.Gorm(ctx).Raw(pruneSQL, args).Scan(&page).Error })
	if err != nil {
		return 0, after, fmt.Errorf("pruning the outbox: %w", err)
	}
	return page.Pruned, page.Last.UUID, nil
}

// pruner remembers how far it has looked. Old events that stay, such as failed ones, are
// looked at once in a round, and not before each batch.
type pruner struct {
	store     *Store
	retention time.Duration
	after     uuid.UUID
}

// maxInVain is how many events that stay a pruner looks at, before it waits for the next
// time. So also millions of them cost little.
const maxInVain = 20_000

// prune looks for limit events to delete. It returns fewer when there are no more, or when
// it has looked at so much in vain that the rest has to wait.
func (p *pruner) prune(ctx context.Context, limit int) (pruned int, err error) {
	for inVain := 0; pruned < limit && inVain < maxInVain; {
		n, last, err := p.store.Prune(ctx, p.retention, p.after, limit)
		if err != nil {
			return pruned, err
		}
		pruned += n
		inVain += limit - n
		if p.after = last; last == uuid.Nil {
			break
		}
	}
	return pruned, nil
}

// KeepTidy prunes, and puts what is due or parked in the wrong place into the right
// one, once a minute until ctx ends. Trouble is logged and waits for the next time.
func (s *Store) KeepTidy(ctx context.Context, retention time.Duration) error {
	both, ctx := errgroup.WithContext(ctx)
	pruning := &pruner{store: s, retention: retention}
	both.Go(func() error { return postgres.KeepPruned(ctx, "outbox", pruning.prune) })
	both.Go(func() error { return s.keepInPlace(ctx) })
	return both.Wait()
}
