package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/internal/postgres"
)

// margin is how much longer than the window a row is kept. now() is constant within a
// transaction. So a transaction that began inside the window may insert after another one has
// pruned. No transaction lasts for an hour.
const margin = time.Hour

// pruneSQL deletes rows whose messages are outside the window. processed_at is never before the
// message's creation. So if the row is older than the window, the message is too. ORDER BY makes
// PostgreSQL search the index, from its old end. SKIP LOCKED lets several replicas share the
// work.
const pruneSQL = `
DELETE FROM processed_messages WHERE message_id = ANY (ARRAY(
  SELECT message_id FROM processed_messages
  WHERE processed_at < now() - @age * interval '1 second'
  ORDER BY processed_at LIMIT @limit
  FOR UPDATE SKIP LOCKED))`

// Prune deletes at most limit rows that no message inside the window needs, and returns how
// many.
func (i *Inbox) Prune(ctx context.Context, limit int) (int, error) {
	var pruned pgconn.CommandTag
	err := i.db.InTx(ctx, func(tx pgx.Tx) (err error) {
		args := pgx.StrictNamedArgs{"age": (i.window + margin).Seconds(), "limit": limit}
		pruned, err = tx.Exec(ctx, pruneSQL, args)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("pruning the inbox: %w", err)
	}
	return int(pruned.RowsAffected()), nil
}

// KeepPruned prunes once a minute until ctx ends.
func (i *Inbox) KeepPruned(ctx context.Context) error {
	return postgres.KeepPruned(ctx, "inbox", i.Prune)
}
