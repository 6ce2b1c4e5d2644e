package order

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/transactional-outbox/internal/postgres"
)

// ErrKeyReused says that the idempotency key was used for another request.
var ErrKeyReused = errors.New("the idempotency key was used for another request")

type keyRow struct {
	Key         string `gorm:"primaryKey"`
	RequestHash []byte
	OrderID     uuid.UUID
}

// TableName is the name for gorm.
func (keyRow) TableName() string { return "idempotency_keys" }

// insertKey stores in tx which new order belongs to the request's key. If the key already has an
// order, it returns that order and true. It waits for another transaction that inserts the same
// key.
func insertKey(tx *gorm.DB, r Request, newOrder uuid.UUID) (existing Order, found bool, err error) {
	result := tx.Clauses(clause.OnConflict{DoNothing: true}).
		Create(&keyRow{Key: r.IdempotencyKey, RequestHash: r.hash(), OrderID: newOrder})
	if result.Error != nil || result.RowsAffected == 1 {
		return Order{}, false, result.Error
	}
	var earlier keyRow
	// The lock of the row is a write, so the COMMIT of this transaction waits for a synchronous
	// standby. Otherwise it would not wait. Somebody may have cancelled the wait of the first COMMIT
	// (pg_cancel_backend): then a failover would lose the order after this answer.
	if err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).First(&earlier, "key = ?", r.IdempotencyKey).Error; err != nil {
		return Order{}, false, fmt.Errorf("reading an idempotency key: %w", err)
	}
	if string(earlier.RequestHash) != string(r.hash()) {
		return Order{}, false, ErrKeyReused
	}
	existing, err = find(tx, earlier.OrderID)
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
  SELECT key FROM idempotency_keys WHERE created_at < now() - ? * interval '1 second'
  ORDER BY created_at LIMIT ? FOR UPDATE SKIP LOCKED))`

// KeepPruned deletes the idempotency keys that are older than retention, once a minute until ctx
// ends.
func (s *Service) KeepPruned(ctx context.Context, retention time.Duration) error {
	return postgres.KeepPruned(ctx, "idempotency keys", func(ctx context.Context, limit int) (pruned int, err error) {
		err = s.db.InGorm(ctx, func(tx *gorm.DB) error {
			result := tx.Exec(pruneSQL, retention.Seconds(), limit)
			pruned = int(result.RowsAffected)
			return result.Error
		})
		return pruned, err
	})
}
