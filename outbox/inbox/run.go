package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// planSQL makes the plan independent of statistics: after a restore there are none, and
// PostgreSQL would read the whole table, or sort all rows of the consumer.
const planSQL = `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off`

// pruneSQL deletes the consumer's oldest rows, from the old end of the index processed_messages_age.
//
//   - SKIP LOCKED: replicas share the work, and a row whose message has just come again stays.
//   - ctid, the place of a row, stays the same while the row is locked.
const pruneSQL = `
DELETE FROM processed_messages WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM processed_messages
  WHERE consumer = cast($1 AS text) AND processed_at < now() - cast($2 AS float8) * interval '1 second'
  ORDER BY processed_at LIMIT cast($3 AS int)
  FOR UPDATE SKIP LOCKED))`

// Run deletes old ids once a minute, in small batches. It returns nil when ctx ends, and an error
// only if waiting cannot help: settings that cannot work, or a missing table.
func (i *Inbox[M]) Run(ctx context.Context) error {
	const batch = 1000
	for ctx.Err() == nil {
		n, err := i.prune(ctx, batch)
		if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNoSchema) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			i.logger.ErrorContext(ctx, "the inbox is not pruned", "error", err)
		}
		if n == batch {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
	return nil
}

// prune deletes at most limit rows, and returns how many.
func (i *Inbox[M]) prune(ctx context.Context, limit int) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err = i.inTx(ctx, planSQL, func(tx pgx.Tx) error {
		deleted, err := tx.Exec(ctx, pruneSQL, i.consumer, i.retention.Seconds(), limit)
		n = int(deleted.RowsAffected())
		return explain(err)
	})
	return n, err
}
