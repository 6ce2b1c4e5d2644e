// Package outsidetx does not compile: each function tries to append an event without a transaction.
// The test of package outbox builds it, and checks that the compiler refuses each marked line for
// the given reason.
package outsidetx

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
)

func withAPool(ctx context.Context, db *pgxpool.Pool, e outbox.Event) error {
	return outbox.Append(ctx, db, e) // refused: cannot use db (variable of type *pgxpool.Pool) as outbox.Tx
}

func withAConnection(ctx context.Context, db *pgx.Conn, e outbox.Event) error {
	return outbox.Append(ctx, db, e) // refused: cannot use db (variable of type *pgx.Conn) as outbox.Tx
}

func withAConnectionOfAPool(ctx context.Context, db *pgxpool.Conn, e outbox.Event) error {
	return outbox.Append(ctx, db, e) // refused: cannot use db (variable of type *pgxpool.Conn) as outbox.Tx
}

func withAnSQLPool(ctx context.Context, db *sql.DB, e outbox.Event) error {
	return outbox.Append(ctx, outbox.FromSQL(db), e) // refused: cannot use db (variable of type *sql.DB) as outbox.SQLTx
}

func withAnSQLConnection(ctx context.Context, db *sql.Conn, e outbox.Event) error {
	return outbox.Append(ctx, outbox.FromSQL(db), e) // refused: cannot use db (variable of type *sql.Conn) as outbox.SQLTx
}

func withAnSQLPoolItself(ctx context.Context, db *sql.DB, e outbox.Event) error {
	return outbox.Append(ctx, db, e) // refused: cannot use db (variable of type *sql.DB) as outbox.Tx
}

func withATransaction(ctx context.Context, tx pgx.Tx, poolTx *pgxpool.Tx, sqlTx *sql.Tx, e outbox.Event) {
	_ = outbox.Append(ctx, tx, e)
	_ = outbox.Append(ctx, poolTx, e)
	_ = outbox.Append(ctx, outbox.FromSQL(sqlTx), e)
}
