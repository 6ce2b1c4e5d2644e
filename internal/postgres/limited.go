package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// limitedTx gives each statement the deadline of its transaction. The caller of a statement passes
// a context of its own, which may have no deadline.
type limitedTx struct {
	pgx.Tx
	deadline time.Time
	cancels  []context.CancelFunc
}

// limit returns ctx with the deadline. The new context lasts as long as the transaction, because
// rows are read after the call.
func (tx *limitedTx) limit(ctx context.Context) context.Context {
	ctx, cancel := context.WithDeadline(ctx, tx.deadline)
	tx.cancels = append(tx.cancels, cancel)
	return ctx
}

func (tx *limitedTx) cancel() {
	for _, cancel := range tx.cancels {
		cancel()
	}
}

// Exec executes a statement.
func (tx *limitedTx) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := context.WithDeadline(ctx, tx.deadline)
	defer cancel()
	return tx.Tx.Exec(ctx, statement, args...)
}

// Query executes a statement that returns rows.
func (tx *limitedTx) Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error) {
	return tx.Tx.Query(tx.limit(ctx), statement, args...)
}

// QueryRow executes a statement that returns at most one row.
func (tx *limitedTx) QueryRow(ctx context.Context, statement string, args ...any) pgx.Row {
	return tx.Tx.QueryRow(tx.limit(ctx), statement, args...)
}

// SendBatch sends several statements together.
func (tx *limitedTx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return tx.Tx.SendBatch(tx.limit(ctx), batch)
}
