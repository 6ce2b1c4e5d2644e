package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
