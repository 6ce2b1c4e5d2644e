package postgres

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"
)

// Tx is an open transaction: holding a *Tx is the proof that one was begun.
type Tx struct{ gorm *gorm.DB }

// Gorm is the way to the statements of this transaction. There is none back:
// nothing turns a *gorm.DB into a *Tx.
func (tx *Tx) Gorm(ctx context.Context) *gorm.DB {
	return tx.gorm.WithContext(ctx)
}

// InTx runs fn in a transaction and commits what it did. An error or a panic in
// fn, or the end of ctx, rolls everything back; a panic goes on to the caller.
//
// When InTx returns nil, everything is committed. When it returns an error that
// came from the commit itself, the outcome is unknown: the reply may have been
// lost on its way back. A caller that tries again needs a key of its own to
// recognise what it has already done.
func (db *DB) InTx(ctx context.Context, fn func(*Tx) error) error {
	return db.transact(ctx, nil, fn)
}

// InSnapshot runs fn in a read-only transaction: all its reads see the database
// at one moment, and the server refuses every write.
func (db *DB) InSnapshot(ctx context.Context, fn func(*Tx) error) error {
	return db.transact(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, fn)
}

// transact holds the program's only commit.
func (db *DB) transact(ctx context.Context, opts *sql.TxOptions, fn func(*Tx) error) error {
	err := db.gorm.WithContext(ctx).Transaction(func(g *gorm.DB) error {
		return fn(&Tx{gorm: g})
	}, opts)
	if err != nil && ctx.Err() != nil {
		// The end of ctx rolls back behind our back, and what comes out then may be the
		// consequence only: that the transaction is over.
		return errors.Join(ctx.Err(), err)
	}
	return err
}
