package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
)

// Tx is an open transaction. A *Tx proves that a transaction was begun. It has one connection, so
// only one goroutine may use it.
type Tx struct {
	gorm   *gorm.DB
	conn   *sql.Conn
	queued *pgx.Batch // not sent yet; begins with BEGIN
	doing  []string   // what each of those does, for its error
	err    error      // why nothing more can be done

	deadline time.Time // for all of it
	cancels  []context.CancelFunc
}

// InTx runs fn in a transaction and commits. It rolls everything back if fn returns an error or
// panics, or if ctx ends before the commit. It passes a panic on to the caller.
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
func (db *DB) InTx(ctx context.Context, fn func(*Tx) error) error {
	return db.transact(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED", fn)
}

// InSnapshot runs fn in a read-only transaction. All its reads see the database at one moment, and
// the server refuses every write.
func (db *DB) InSnapshot(ctx context.Context, fn func(*Tx) error) error {
	return db.transact(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", fn)
}

// transact has the program's only commit. BEGIN and COMMIT are queued like any write: BEGIN is sent
// with the first statement, and COMMIT with the last writes. If one statement of such a batch
// fails, the server skips the rest, including COMMIT.
func (db *DB) transact(ctx context.Context, begin string, fn func(*Tx) error) error {
	tx := &Tx{gorm: db.gorm, queued: &pgx.Batch{}, deadline: time.Now().Add(db.txTimeout)}
	ctx = tx.withDeadline(ctx)
	defer tx.cancel()
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return err
	}
	tx.conn = conn
	defer tx.end(ctx) // also when ctx has ended
	tx.queue("beginning the transaction", begin, nil, readExec)
	if err := fn(tx); err != nil {
		return err
	}
	tx.queue("committing", "COMMIT", nil, readCommit)
	return tx.flush(ctx)
}

// withDeadline returns ctx with the deadline of the transaction. The new context lasts as long as
// the transaction, because rows may be read after the call.
func (tx *Tx) withDeadline(ctx context.Context) context.Context {
	if earlier, ok := ctx.Deadline(); ok && !earlier.After(tx.deadline) {
		return ctx
	}
	ctx, cancel := context.WithDeadline(ctx, tx.deadline)
	tx.cancels = append(tx.cancels, cancel)
	return ctx
}

func (tx *Tx) cancel() {
	for _, cancel := range tx.cancels {
		cancel()
	}
}

// readCommit returns an error if the server answers ROLLBACK to COMMIT. The server does so if
// a statement has failed and fn has ignored the error.
func readCommit(answers pgx.BatchResults) error {
	answer, err := answers.Exec()
	if err == nil && answer.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// rollbackTimeout limits the wait for the answer to ROLLBACK. Without an answer the connection is
// closed, and the server rolls back as well.
const rollbackTimeout = time.Second

// end rolls back unless the transaction is committed, and returns the connection. The pool closes
// the connection if it may still be in a transaction.
func (tx *Tx) end(ctx context.Context) {
	tx.err = sql.ErrTxDone
	_ = tx.withPgxConn(func(conn *pgx.Conn) error {
		if conn.PgConn().TxStatus() == 'I' { // idle: committed, or BEGIN was never sent
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, err := conn.Exec(ctx, "ROLLBACK")
		return err
	})
	_ = tx.conn.Close()
}
