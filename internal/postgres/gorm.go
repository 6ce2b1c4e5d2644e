package postgres

import (
	"context"
	"database/sql"

	"gorm.io/gorm"
)

// Gorm returns a *gorm.DB that executes its statements in this transaction, after the writes that
// were queued before. It can neither begin nor commit, and nothing turns a *gorm.DB into a *Tx.
func (tx *Tx) Gorm(ctx context.Context) *gorm.DB {
	g := tx.gorm.Session(&gorm.Session{Context: ctx, NewDB: true})
	g.Statement.ConnPool = queuedFirst{tx}
	return g
}

// queuedFirst executes the queued statements before each statement of gorm.
type queuedFirst struct{ tx *Tx }

var _ gorm.ConnPool = queuedFirst{}

func (t queuedFirst) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := t.tx.flush(ctx); err != nil {
		return nil, err
	}
	return t.tx.conn.PrepareContext(t.tx.withDeadline(ctx), query)
}

func (t queuedFirst) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := t.tx.flush(ctx); err != nil {
		return nil, err
	}
	return t.tx.conn.ExecContext(t.tx.withDeadline(ctx), query, args...)
}

func (t queuedFirst) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := t.tx.flush(ctx); err != nil {
		return nil, err
	}
	return t.tx.conn.QueryContext(t.tx.withDeadline(ctx), query, args...)
}

// QueryRowContext cannot return the error: nobody but database/sql can make a *sql.Row. The error
// is not lost: after it, nothing is committed.
func (t queuedFirst) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	_ = t.tx.flush(ctx)
	return t.tx.conn.QueryRowContext(t.tx.withDeadline(ctx), query, args...)
}
