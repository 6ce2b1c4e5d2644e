package notification

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// pruneMargin is how much longer than the retention a notification is kept. The retention is at
// least the inbox's window. So the inbox accepts no message whose notification is pruned.
const pruneMargin = time.Hour

// pruneSQL deletes notifications that are older than the retention, in any state but being sent.
// Their messages are too old to come back.
//
//   - ORDER BY makes PostgreSQL search the index, from its old end.
//   - ARRAY makes it delete by the primary key. For IN, it may read the whole table.
//   - SKIP LOCKED lets several replicas share the work.
const pruneSQL = `
DELETE FROM notifications WHERE message_id = ANY (ARRAY(
  SELECT message_id FROM notifications
  WHERE created_at < now() - @age * interval '1 second' AND (lease_until IS NULL OR lease_until <= now())
  ORDER BY created_at LIMIT @limit
  FOR UPDATE SKIP LOCKED))
RETURNING order_id`

// Two statements delete the progress of orders that have no more notifications. The first one
// waits for transactions that are raising it. The second one sees what they have recorded.
const (
	lockProgressSQL  = `SELECT FROM order_progress WHERE order_id = ANY (cast(@orders AS uuid[])) ORDER BY order_id FOR UPDATE`
	pruneProgressSQL = `
DELETE FROM order_progress p
WHERE p.order_id = ANY (cast(@orders AS uuid[]))
  AND NOT EXISTS (SELECT FROM notifications n WHERE n.order_id = p.order_id)`
)

// Prune deletes at most limit notifications that are older than the retention, and the progress
// of their orders. It returns how many notifications it deleted.
func (s *Service) Prune(ctx context.Context, limit int) (pruned int, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		age := (s.config.Retention + pruneMargin).Seconds()
		orders, err := postgres.Read(ctx, tx, pruneSQL, postgres.Args{"age": age, "limit": limit}, pgx.RowTo[uuid.UUID])
		if err != nil || len(orders) == 0 {
			return err
		}
		pruned = len(orders)
		if err := postgres.Write(ctx, tx, "locking the progress of orders", lockProgressSQL, postgres.Args{"orders": bytesOf(orders)}); err != nil {
			return err
		}
		return postgres.Write(ctx, tx, "pruning the progress of orders", pruneProgressSQL, postgres.Args{"orders": bytesOf(orders)})
	})
	if err != nil {
		return 0, fmt.Errorf("pruning notifications: %w", err)
	}
	return pruned, nil
}

// KeepPruned prunes once a minute until ctx ends.
func (s *Service) KeepPruned(ctx context.Context) error {
	return postgres.KeepPruned(ctx, "notifications", s.Prune)
}
