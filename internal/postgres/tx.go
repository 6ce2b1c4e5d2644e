package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
)

// InTx runs fn in a transaction and commits. It rolls everything back if fn returns an error or
// panics, or if ctx ends before the commit.
//
// The isolation level is READ COMMITTED, whatever the default of the database or the role is: each
// statement sees what others have committed before it. After the wait for a lock, a statement must
// see what the previous holder committed.
//
// The transaction has its own deadline, see [TxTimeout]: a server can vanish, and then only
// a deadline ends the wait for its answer. If the deadline of ctx is earlier, that one holds.
//
// If InTx returns nil, everything is committed. If it returns an error from the commit itself, the
// outcome is unknown: the reply may be lost, or ctx may have ended during the commit. A caller
// that tries again needs an idempotency key to recognise work that is already done.
func (db *DB) InTx(ctx context.Context, fn func(pgx.Tx) error) error {
	return db.transact(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

// InSnapshot runs fn in a read-only transaction. All its reads see the database at one moment, and
// the server refuses every write.
func (db *DB) InSnapshot(ctx context.Context, fn func(pgx.Tx) error) error {
	return db.transact(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
}

func (db *DB) transact(ctx context.Context, options pgx.TxOptions, fn func(pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.txTimeout)
	defer cancel()
	return pgx.BeginTxFunc(ctx, db.pool, options, func(tx pgx.Tx) error {
		limited := &limitedTx{Tx: tx}
		limited.deadline, _ = ctx.Deadline()
		defer limited.cancel()
		return fn(limited)
	})
}

// InGorm is [DB.InTx] for code that uses gorm. The transaction's *gorm.DB is for fn alone.
func (db *DB) InGorm(ctx context.Context, fn func(*gorm.DB) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.txTimeout)
	defer cancel()
	err := db.gorm.WithContext(ctx).Transaction(fn, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
		return ctx.Err() // database/sql has rolled back as soon as ctx ended, and says only that
	}
	return err
}

// Read returns the rows of a statement. The names of args and of the statement must match.
func Read[T any](ctx context.Context, tx pgx.Tx, statement string, args Args, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, _ := tx.Query(ctx, statement, pgx.StrictNamedArgs(args)) // CollectRows returns its error
	return pgx.CollectRows(rows, scan)
}

// ReadOne is Read for the first row, or [sql.ErrNoRows].
func ReadOne[T any](ctx context.Context, tx pgx.Tx, statement string, args Args, scan pgx.RowToFunc[T]) (row T, err error) {
	rows, err := Read(ctx, tx, statement, args, scan)
	if err == nil && len(rows) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return row, err
	}
	return rows[0], nil
}

// Write executes a statement. Its error says what it was doing, and is not wrapped if that is "".
func Write(ctx context.Context, tx pgx.Tx, doing, statement string, args Args) error {
	_, err := tx.Exec(ctx, statement, pgx.StrictNamedArgs(args))
	if err != nil && doing != "" {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return err
}

// Args are the values of a statement's @names: one for each name, and no others.
type Args map[string]any

// SetLockTimeout limits the wait for each lock in this transaction. After that the error is 55P03,
// and [Contended] is true for it.
func SetLockTimeout(ctx context.Context, tx pgx.Tx, limit time.Duration) error {
	return Write(ctx, tx, "bounding the wait for locks", "SELECT set_config('lock_timeout', @limit, true)",
		Args{"limit": fmt.Sprintf("%dms", limit.Milliseconds())})
}

// UseIndexes makes the statements of this transaction find rows by an index. A plan that was made
// while a table was nearly empty reads the whole table. A connection keeps such a plan until the
// table is analysed: with 20,000 rows, each statement took 2 ms instead of 0.05 ms.
//
// With an index scan, all such statements lock their rows in the order of the index. So two of
// them do not deadlock. A bitmap scan would lock the rows in the order of the table.
//
// If a plan must still read a whole table, PostgreSQL adds a penalty to its cost. A high cost makes
// PostgreSQL compile the plan (JIT), which takes longer than reading such a small table. So JIT
// is off as well.
func UseIndexes(ctx context.Context, tx pgx.Tx) error {
	return Write(ctx, tx, "preferring indexes",
		`SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		        set_config('jit', 'off', true)`, nil)
}

// IsNoRows reports that a query found no row, by database/sql, pgx or gorm.
func IsNoRows(err error) bool {
	return errors.Is(err, sql.ErrNoRows) || errors.Is(err, gorm.ErrRecordNotFound)
}
