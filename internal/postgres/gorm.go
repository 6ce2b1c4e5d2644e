package postgres

import (
	"context"
	"database/sql"

	"gorm.io/gorm"
)

// Gorm is the way to the statements of this transaction that gorm makes, each in its
// turn after the writes before it. There is none back: nothing turns a *gorm.DB into
// a *Tx, and this one can neither commit nor begin.
func (tx *Tx) Gorm(ctx context.Context) *gorm.DB {
	g := tx.gorm.Session(&gorm.Session{Context: ctx, NewDB: true})
	g.Statement.ConnPool = inTurn{tx}
	return g
}

// inTurn lets gorm's statements wait for what is queued.
type inTurn struct{ tx *Tx }

var _ gorm.ConnPool = inTurn{}

func (t inTurn) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := t.tx.send(ctx); err != nil {
		return nil, err
	}
	return t.tx.conn.PrepareContext(t.tx.bound(ctx), query)
}

func (t inTurn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := t.tx.send(ctx); err != nil {
		return nil, err
	}
	return t.tx.conn.ExecContext(t.tx.bound(ctx), query, args...)
}

func (t inTurn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := t.tx.send(ctx); err != nil {
		return nil, err
	}
	return t.tx.conn.QueryContext(t.tx.bound(ctx), query, args...)
}

// QueryRowContext cannot return the error: a *sql.Row of one's own does not exist. It
// is not lost: nothing is committed after it.
func (t inTurn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	_ = t.tx.send(ctx)
	return t.tx.conn.QueryRowContext(t.tx.bound(ctx), query, args...)
}
