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
const guardSQL = `;
DECLARE inbox_guard CURSOR WITH HOLD FOR SELECT cast(concat('the inbox ends this transaction, and not the handler') AS boolean)`

// inTx begins with beginSQL and with more statements.
func (i *Inbox[M]) inTx(ctx context.Context, more string, fn func(pgx.Tx) error) error {
	err := check("consumer's name", i.consumer)
	if err == nil && (i.retention <= 0 || i.lockTimeout < time.Millisecond) {
		err = fmt.Errorf("%w: a retention of %s, a lock timeout of %s", ErrInvalid, i.retention, i.lockTimeout)
	}
	if err == nil {
		begin := fmt.Sprintf(beginSQL, i.lockTimeout.Milliseconds()) + more
		err = pgx.BeginTxFunc(ctx, i.pool, pgx.TxOptions{BeginQuery: begin}, fn)
	}
	if err != nil {
		return fmt.Errorf("inbox %s: %w", i.consumer, err)
	}
	return nil
}

var errEnded = errors.New("the handler has ended the transaction of the inbox: " +
	"it must return nil, and the inbox commits, or an error, and the inbox rolls back")

// handlerTx is the inbox's transaction for a handler, which can use it and not end it.
type handlerTx struct {
	pgx.Tx
	committed bool
}

// Commit is an error, and fails the batch also if the handler ignores it.
func (t *handlerTx) Commit(context.Context) error {
	t.committed = true
	return errEnded
}

// Rollback does nothing: a handler may defer it, and then it runs before the inbox commits.
func (t *handlerTx) Rollback(context.Context) error { return nil }

// check returns an error if the handler has ended the transaction, or has tried to.
func (t *handlerTx) check() error {
	if t.committed || t.Conn().PgConn().TxStatus() == 'I' {
		return errEnded
	}
	return nil
}

// release lets the inbox commit. If the handler has begun another transaction as text, that one has
// no guard. If a statement has failed, COMMIT says so.
func (t *handlerTx) release(ctx context.Context) error {
	if err := t.check(); err != nil || t.Conn().PgConn().TxStatus() == 'E' {
		return err
	}
	_, err := t.Exec(ctx, "CLOSE inbox_guard")
	const invalidCursorName = "34000"
	if p, ok := errors.AsType[*pgconn.PgError](err); ok && p.Code == invalidCursorName {
		return errEnded
	}
	return err
}
