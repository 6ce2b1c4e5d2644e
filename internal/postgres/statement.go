package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Write queues a statement, and does not wait for its answer. The queue is sent with the next
// statement whose answer is awaited, at the latest with the commit. So several writes in a row
// need one round trip.
//
// The server's error appears at the next awaited statement, prefixed by `doing`. Write itself
// returns an error only if the transaction has failed or ended.
func (tx *Tx) Write(doing, statement string, args Args) error {
	tx.queue(doing, statement, args, readExec)
	return tx.err
}

// Collect is Write for a statement that returns rows. Rows is filled by the next awaited statement,
// at the latest by the commit in [DB.InTx]. Use the rows only if that returns nil.
func Collect[T any](tx *Tx, rows *[]T, doing, statement string, args Args, scan pgx.RowToFunc[T]) error {
	tx.queue(doing, statement, args, func(answers pgx.BatchResults) (err error) {
		answer, _ := answers.Query() // CollectRows returns its error
		*rows, err = pgx.CollectRows(answer, scan)
		return err
	})
	return tx.err
}

// Read sends the queued writes and then this statement, and returns the statement's rows.
func Read[T any](ctx context.Context, tx *Tx, statement string, args Args, scan pgx.RowToFunc[T]) (rows []T, err error) {
	_ = Collect(tx, &rows, "", statement, args, scan) // flush returns its error as well
	err = tx.flush(ctx)
	return rows, err
}

// ReadOne is Read for the first row, or [sql.ErrNoRows].
func ReadOne[T any](ctx context.Context, tx *Tx, statement string, args Args, scan pgx.RowToFunc[T]) (row T, err error) {
	rows, err := Read(ctx, tx, statement, args, scan)
	if err == nil && len(rows) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return row, err
	}
	return rows[0], nil
}

func (tx *Tx) queue(doing, statement string, args Args, read func(pgx.BatchResults) error) {
	tx.doing = append(tx.doing, doing)
	tx.queued.Queue(statement, args).Fn = func(answers pgx.BatchResults) error {
		return wrap(doing, read(answers))
	}
}

// readExec reads the answer to a statement without rows.
func readExec(answers pgx.BatchResults) error {
	_, err := answers.Exec()
	return err
}

// flush sends the queued statements, and reads all answers. After an error nothing more is sent:
// a statement that fn relies on may be missing, and nothing may be committed without it.
func (tx *Tx) flush(ctx context.Context) error {
	batch, doing := tx.queued, tx.doing
	tx.queued, tx.doing = &pgx.Batch{}, nil
	if tx.err == nil {
		tx.err = ctx.Err()
	}
	if tx.err == nil && batch.Len() > 0 {
		ctx := tx.withDeadline(ctx)
		tx.err = tx.withPgxConn(func(conn *pgx.Conn) error {
			return withFailedStatement(conn.SendBatch(ctx, batch).Close(), batch, doing)
		})
	}
	return tx.err
}

// withFailedStatement adds to the error which statement could not be sent.
func withFailedStatement(err error, batch *pgx.Batch, doing []string) error {
	if unsent, ok := errors.AsType[pgx.ErrPreprocessingBatch](err); ok {
		for i, query := range batch.QueuedQueries {
			if query.SQL == unsent.SQL() {
				return wrap(doing[i], err)
			}
		}
	}
	return err
}

func wrap(doing string, err error) error {
	if err == nil || doing == "" {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// withPgxConn calls use with the pgx connection below database/sql.
func (tx *Tx) withPgxConn(use func(*pgx.Conn) error) error {
	return tx.conn.Raw(func(c any) error { return use(c.(*stdlib.Conn).Conn()) })
}
