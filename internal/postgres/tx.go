package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
)

// Tx is an open transaction: holding a *Tx is the proof that one was begun. It has
// one connection, so it is for one goroutine.
type Tx struct {
	gorm    *gorm.DB
	conn    *sql.Conn
	waiting *pgx.Batch // not sent yet, from BEGIN on
	doing   []string   // what each of those does, for its error
	err     error      // why nothing more can be done

	deadline time.Time // for all of it
	cancels  []context.CancelFunc
}

// InTx runs fn in a transaction and commits what it did. An error or a panic in
// fn, or the end of ctx until then, rolls everything back; a panic goes on to the
// caller.
//
// The transaction has a deadline of its own, see [TxTimeout]: a server can vanish without
// a word, and then nothing but a deadline ends the wait for its answer. An earlier one of
// ctx holds.
//
// When InTx returns nil, everything is committed. When it returns an error that
// came from the commit itself, the outcome is unknown: the reply may have been
// lost on its way back, or ctx may have ended while the server was at it. A caller
// that tries again needs a key of its own to recognise what it has already done.
func (db *DB) InTx(ctx context.Context, fn func(*Tx) error) error {
	return db.transact(ctx, "BEGIN", fn)
}

// InSnapshot runs fn in a read-only transaction: all its reads see the database
// at one moment, and the server refuses every write.
func (db *DB) InSnapshot(ctx context.Context, fn func(*Tx) error) error {
	return db.transact(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", fn)
}

// transact holds the program's only commit. BEGIN and COMMIT are queued like any write:
// the one goes out with the first statement, the other takes the last writes along. A
// server that fails at one statement of such a batch skips the rest, COMMIT included.
func (db *DB) transact(ctx context.Context, begin string, fn func(*Tx) error) error {
	tx := &Tx{gorm: db.gorm, waiting: &pgx.Batch{}, deadline: time.Now().Add(db.txTimeout)}
	ctx = tx.bound(ctx)
	defer tx.cancel()
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return err
	}
	tx.conn = conn
	defer tx.end(ctx) // also when ctx has ended
	tx.queue("beginning the transaction", begin, nil, executed)
	if err := fn(tx); err != nil {
		return err
	}
	tx.queue("committing", "COMMIT", nil, committed)
	return tx.send(ctx)
}

// bound returns ctx with the deadline of the transaction. Rows that are still being read
// need it after the call, so it lasts as long as the transaction.
func (tx *Tx) bound(ctx context.Context) context.Context {
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

// committed tells a commit from the ROLLBACK that the server answers to COMMIT when a
// statement has failed, and fn has passed over it.
func committed(answers pgx.BatchResults) error {
	answer, err := answers.Exec()
	if err == nil && answer.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// rollbackTimeout bounds the wait for the answer to ROLLBACK. Without one the
// connection is closed, which tells the server the same.
const rollbackTimeout = time.Second

// end rolls back what is not committed, and returns the connection. The pool closes
// it unless it is known to be outside a transaction.
func (tx *Tx) end(ctx context.Context) {
	tx.err = sql.ErrTxDone
	_ = tx.pgx(func(conn *pgx.Conn) error {
		if conn.PgConn().TxStatus() == 'I' { // idle: committed, or not even begun
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, err := conn.Exec(ctx, "ROLLBACK")
		return err
	})
	_ = tx.conn.Close()
}
