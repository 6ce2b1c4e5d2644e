package order

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// ErrKeyReused says that the idempotency key was used for another request.
var ErrKeyReused = errors.New("the idempotency key was used for another request")

// rememberSQL waits for another transaction that is using the same key. It returns
// nothing when that one commits, or one did so before.
const rememberSQL = `
INSERT INTO idempotency_keys (key, request_hash, order_id) VALUES (@key, @hash, @order)
ON CONFLICT (key) DO NOTHING RETURNING order_id`

const earlierSQL = `SELECT request_hash, order_id FROM idempotency_keys WHERE key = @key`

type earlierRow struct {
	RequestHash []byte
	OrderID     uuid.UUID
}

// remember notes in tx that a request is being fulfilled by a new order. If it has been
// fulfilled before, it returns that order and true.
func remember(ctx context.Context, tx *postgres.Tx, r Request, newOrder uuid.UUID) (before Order, again bool, err error) {
	args := postgres.Args{"key": r.IdempotencyKey, "hash": r.hash(), "order": newOrder}
	_, err = postgres.ReadOne(ctx, tx, rememberSQL, args, pgx.RowTo[uuid.UUID])
	if !errors.Is(err, sql.ErrNoRows) {
		return Order{}, false, err // it is new, or something is wrong
	}
	earlier, err := postgres.ReadOne(ctx, tx, earlierSQL, postgres.Args{"key": r.IdempotencyKey}, pgx.RowToStructByName[earlierRow])
	if err != nil {
		return Order{}, false, fmt.Errorf("reading an idempotency key: %w", err)
	}
	if string(earlier.RequestHash) != string(r.hash()) {
		return Order{}, false, ErrKeyReused
	}
	before, err = find(ctx, tx, earlier.OrderID)
	return before, true, err
}

// hash is the same for requests that ask for the same.
func (r Request) hash() []byte {
	asked := fmt.Sprintf("%q %d %s %q", r.ProductID, r.Quantity, r.CustomerID, r.CustomerEmail)
	sum := sha256.Sum256([]byte(asked))
	return sum[:]
}

// pruneSQL names an order and makes a list of the keys, so that both are found by an index.
// Otherwise the planner may go through the whole table for each batch.
const pruneSQL = `
DELETE FROM idempotency_keys WHERE key = ANY (ARRAY(
  SELECT key FROM idempotency_keys WHERE created_at < now() - @retention * interval '1 second'
  ORDER BY created_at LIMIT @limit FOR UPDATE SKIP LOCKED))`

// KeepPruned forgets the idempotency keys that are older than retention, once a minute
// until ctx ends.
func (s *Service) KeepPruned(ctx context.Context, retention time.Duration) error {
	return postgres.KeepPruned(ctx, "idempotency keys", func(ctx context.Context, limit int) (pruned int, err error) {
		err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
			result := tx.Gorm(ctx).Exec(pruneSQL, map[string]any{"retention": retention.Seconds(), "limit": limit})
			pruned = int(result.RowsAffected)
			return result.Error
		})
		return pruned, err
	})
}
