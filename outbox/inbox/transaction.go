package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// beginSQL states what every transaction of an inbox needs, whatever the role's defaults are.
//
//   - With SERIALIZABLE, batches that are handled at the same time would fail.
//   - lock_timeout: without it, a transaction that hangs would stop all consumers of its messages.
//   - datestyle: two modes of pgx read a time as text, and know this style only.
const beginSQL = `
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL lock_timeout = %d;
SET LOCAL datestyle = 'ISO'`

// guardSQL lets only the inbox commit. PostgreSQL reads a cursor WITH HOLD to its end when the
// transaction commits, and to read this one is an error. The inbox closes it first (release). A
// handler that sends COMMIT as text would otherwise commit the ids of messages that have no effect
// yet. concat keeps PostgreSQL from finding the error when it plans the query.
const guardSQL = `DECLARE inbox_guard CURSOR WITH HOLD FOR SELECT cast(concat('the inbox ends this transaction, and not the handler') AS boolean)`

// inTx runs fn in a transaction that begins with beginSQL and more statements.
func (i *Inbox[M]) inTx(ctx context.Context, more string, fn func(pgx.Tx) error) error {
	err := check("consumer's name", i.consumer)
	if err == nil && (i.retention <= 0 || i.lockTimeout < time.Millisecond) {
		err = fmt.Errorf("%w: a retention of %s, a lock timeout of %s", ErrInvalid, i.retention, i.lockTimeout)
	}
	if err == nil {
		begin := fmt.Sprintf(beginSQL, i.lockTimeout.Milliseconds()) + ";\n" + more
		err = pgx.BeginTxFunc(ctx, i.pool, pgx.TxOptions{BeginQuery: begin}, fn)
	}
	if err != nil {
		return fmt.Errorf("inbox %s: %w", i.consumer, err)
	}
	return nil
}

var errEnded = errors.New("a handler must not end the transaction of the inbox: " +
	"return nil to commit it, or an error to roll it back")

// handlerTx is the inbox's transaction for a handler, which can use it and not end it.
type handlerTx struct {
	pgx.Tx
	triedCommit bool
}

// Commit is an error, and fails the batch even if the handler ignores it.
func (t *handlerTx) Commit(context.Context) error {
	t.triedCommit = true
	return errEnded
}

// Rollback does nothing: a handler may defer it, and then it runs before the inbox commits.
func (t *handlerTx) Rollback(context.Context) error { return nil }

// The states of a connection, as PostgreSQL reports them.
const (
	idle   = 'I' // there is no transaction
	broken = 'E' // a statement has failed, and COMMIT will roll back
)

// ended returns an error if the handler has ended the transaction, or has tried to.
func (t *handlerTx) ended() error {
	if t.triedCommit || t.Conn().PgConn().TxStatus() == idle {
		return errEnded
	}
	return nil
}

// release closes the guard, so that the inbox can commit. There is none if the handler has begun
// another transaction as text.
func (t *handlerTx) release(ctx context.Context) error {
	if err := t.ended(); err != nil || t.Conn().PgConn().TxStatus() == broken {
		return err
	}
	_, err := t.Exec(ctx, "CLOSE inbox_guard")
	const invalidCursorName = "34000"
	if p, ok := errors.AsType[*pgconn.PgError](err); ok && p.Code == invalidCursorName {
		return fmt.Errorf("%w; nor may it close the cursor inbox_guard", errEnded)
	}
	return err
}
