package outbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLTx is an open transaction of database/sql. A *sql.Tx is one. So is what gorm has in a
// transaction, with and without PrepareStmt:
//
//	tx.Statement.ConnPool.(outbox.SQLTx)
//
// A *sql.DB and a *sql.Conn have no Commit, so they are no SQLTx.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) // for package outboxtest
	Commit() error                                                                  // is never called
}

// FromSQL returns a [Tx] for a transaction of database/sql. The driver must be for PostgreSQL, with
// parameters such as $1: use pgx's stdlib or pq.
func FromSQL(tx SQLTx) Tx {
	return sqlTx{tx}
}

type sqlTx struct{ SQLTx }

func (t sqlTx) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	result, err := t.ExecContext(ctx, query, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	n, err := result.RowsAffected()
	return pgconn.NewCommandTag(fmt.Sprintf("EXEC %d", n)), err
}

func (t sqlTx) Commit(context.Context) error {
	return t.SQLTx.Commit()
}
