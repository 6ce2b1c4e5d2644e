package outbox

import (
	"context"
	"database/sql/driver"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// Store is the relay's side of the outbox.
type Store struct {
	db         *postgres.DB
	countLimit int // Backlog counts up to here, and estimates what is more
}

// NewStore returns the outbox in db.
func NewStore(db *postgres.DB) *Store { return &Store{db: db, countLimit: countLimit} }

// exec runs one statement in a transaction of its own, and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, statement string, args map[string]any) (int, error) {
	var n int64
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		result := tx.Gorm(ctx).Exec(statement, args)
		n = result.RowsAffected
		return result.Error
	})
	return int(n), err
}

// array is one array parameter. gorm expands a plain slice to one parameter for each element. Then
// PostgreSQL would have to prepare another statement for each length.
type array[T any] []T

// Value returns the slice unchanged; pgx encodes it as an array.
func (a array[T]) Value() (driver.Value, error) { return []T(a), nil }

// uuids converts ids to bytes. pgx sends a uuid.UUID as text, which PostgreSQL has to parse.
func uuids(ids []uuid.UUID) array[[16]byte] {
	all := make(array[[16]byte], 0, len(ids))
	for _, id := range ids {
		all = append(all, id)
	}
	return all
}
