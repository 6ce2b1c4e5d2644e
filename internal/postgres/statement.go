package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Write executes a statement whose answer nobody waits for. It travels with the next
// statement that is waited for, at the latest with the commit, so that some writes in
// a row cost one way to the server and back.
//
// What the server says against it comes out there, behind what the write was doing.
// The error here is that the transaction is over.
func (tx *Tx) Write(doing, statement string, args Args) error {
	tx.queue(doing, statement, args, executed)
	return tx.err
}

// Collect is Write for a statement that returns rows. They are there when the answer
// is: after the next statement that is waited for, at the latest after [DB.InTx], and
// they are worth something only if that returns nil.
func Collect[T any](tx *Tx, rows *[]T, doing, statement string, args Args, scan pgx.RowToFunc[T]) error {
	tx.queue(doing, statement, args, func(answers pgx.BatchResults) (err error) {
		answer, _ := answers.Query() // its error comes out of the rows
		*rows, err = pgx.CollectRows(answer, scan)
		return err
	})
	return tx.err
}

// Read executes a statement, after the writes before it, and returns its rows.
func Read[T any](ctx context.Context, tx *Tx, statement string, args Args, scan pgx.RowToFunc[T]) (rows []T, err error) {
	_ = Collect(tx, &rows, "", statement, args, scan) // it comes out of send as well
	err = tx.send(ctx)
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
	tx.waiting.Queue(statement, args).Fn = func(answers pgx.BatchResults) error {
		return wrapped(doing, read(answers))
	}
}

// executed reads the answer to a statement that has none but its success.
func executed(answers pgx.BatchResults) error {
	_, err := answers.Exec()
	return err
}

// send sends what is waiting, and reads all the answers. After an error nothing more
// is sent: a statement may be lost that fn takes for done, and there must be no commit
// without it.
func (tx *Tx) send(ctx context.Context) error {
	batch, doing := tx.waiting, tx.doing
	tx.waiting, tx.doing = &pgx.Batch{}, nil
	if tx.err == nil {
		tx.err = ctx.Err()
	}
	if tx.err == nil && batch.Len() > 0 {
		ctx := tx.bound(ctx)
		tx.err = tx.pgx(func(conn *pgx.Conn) error {
			return attributed(conn.SendBatch(ctx, batch).Close(), batch, doing)
		})
	}
	return tx.err
}

// attributed finds out which statement it was that could not even be sent.
func attributed(err error, batch *pgx.Batch, doing []string) error {
	if unsent, ok := errors.AsType[pgx.ErrPreprocessingBatch](err); ok {
		for i, query := range batch.QueuedQueries {
			if query.SQL == unsent.SQL() {
				return wrapped(doing[i], err)
			}
		}
	}
	return err
}

func wrapped(doing string, err error) error {
	if err == nil || doing == "" {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// pgx lends the connection as what it is below database/sql.
func (tx *Tx) pgx(use func(*pgx.Conn) error) error {
	return tx.conn.Raw(func(c any) error { return use(c.(*stdlib.Conn).Conn()) })
}
