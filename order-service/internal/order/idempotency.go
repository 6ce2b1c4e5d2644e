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

// insertKeySQL waits for another transaction that inserts the same key. It returns no row if the
// key is already there, or if the other transaction commits.
const insertKeySQL = `
INSERT INTO idempotency_keys (key, request_hash, order_id) VALUES (@key, @hash, @order)
ON CONFLICT (key) DO NOTHING RETURNING order_id`

const findKeySQL = `SELECT request_hash, order_id FROM idempotency_keys WHERE key = @key`

type keyRow struct {
	RequestHash []byte
	OrderID     uuid.UUID
}

// insertKey stores in tx which new order belongs to the request's key. If the key already has an
// order, it returns that order and true.
func insertKey(ctx context.Context, tx *postgres.Tx, r Request, newOrder uuid.UUID) (existing Order, found bool, err error) {
	args := postgres.Args{"key": r.IdempotencyKey, "hash": r.hash(), "order": newOrder}
	_, err = postgres.ReadOne(ctx, tx, insertKeySQL, args, pgx.RowTo[uuid.UUID])
	if !errors.Is(err, sql.ErrNoRows) {
		return Order{}, false, err // the key is new, or the statement failed
	}
	earlier, err := postgres.ReadOne(ctx, tx, findKeySQL, postgres.Args{"key": r.IdempotencyKey}, pgx.RowToStructByName[keyRow])
	if err != nil {
		return Order{}, false, fmt.Errorf("reading an idempotency key: %w", err)
	}
	if string(earlier.RequestHash) != string(r.hash()) {
		return Order{}, false, ErrKeyReused
	}
	existing, err = find(ctx, tx, earlier.OrderID)
	return existing, true, err
}

// hash is equal for equal requests.
func (r Request) hash() []byte {
	request := fmt.Sprintf("%q %d %s %q", r.ProductID, r.Quantity, r.CustomerID, r.CustomerEmail)
	sum := sha256.Sum256([]byte(request))
	return sum[:]
}

// pruneSQL has an ORDER BY and an ARRAY, so that the planner uses the indexes. Otherwise it may
// scan the whole table for each batch.
const pruneSQL = `
DELETE FROM idempotency_keys WHERE key = ANY (ARRAY(
  SELECT key FROM idempotency_keys WHERE created_at < now() - @retention * interval '1 second'
  ORDER BY created_at LIMIT @limit FOR UPDATE SKIP LOCKED))`

// KeepPruned deletes the idempotency keys that are older than retention, once a minute until ctx
// ends.
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
