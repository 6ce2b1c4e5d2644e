package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// txTimeout limits a whole transaction. A server can vanish, and then only a deadline ends the
	// wait for its answer.
	txTimeout = 15 * time.Second
	// rollbackTimeout limits the wait for the answer to ROLLBACK. Without an answer the connection is
	// closed, and the server rolls back as well.
	rollbackTimeout = time.Second
)

// args are the values of a statement's @names: one for each name, and no others.
type args = pgx.StrictNamedArgs

// statement is one of several that are sent together.
type statement struct {
	doing string // for the error
	sql   string
	args  args
	read  func(pgx.Rows) error // nil: the statement has no rows
}

// settingsSQL holds for one transaction.
//
//   - enable_seqscan, enable_bitmapscan: each statement finds rows by an index. A connection keeps
//     a plan that was made while a table was nearly empty, and such a plan reads the whole table.
//     And with an index scan, all statements lock their rows in the order of the index. So two of
//     them do not deadlock. A bitmap scan would lock the rows in the order of the table;
//   - enable_hashjoin, enable_mergejoin: the join of a few rows with a large table is a loop that
//     finds each row by its key, and never a scan of the table;
//   - plan_cache_mode: no plan depends on the values of parameters. To plan a claim for each
//     execution takes longer than to execute it;
//   - jit: if a plan must still read a whole table, PostgreSQL adds a penalty to its cost. A high
//     cost makes PostgreSQL compile the plan, which takes longer than reading such a small table;
//   - datestyle, bytea_output: two modes of pgx get all values as text, and can read these only;
//   - idle_in_transaction_session_timeout: if this process's host vanishes, the server would keep
//     the locks until TCP gives up, for hours. It is as long as txTimeout.
const settingsSQL = `
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true),
       set_config('datestyle', 'ISO', true), set_config('bytea_output', 'hex', true),
       set_config('idle_in_transaction_session_timeout', '15s', true)`

// ForgetfulSQL lets the commit return before the disk has it. What a crash of the server forgets is
// done once more: a claim, or a mark, and then the destination gets a message twice.
const ForgetfulSQL = settingsSQL + `, set_config('synchronous_commit', 'off', true)`

// durableSQL makes the commit wait for the disk, if it would not (off). Any other value stays.
const durableSQL = settingsSQL + `,
       CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`

// together runs statements in one transaction, whose commit does not wait for the disk.
func (s *Store) together(ctx context.Context, statements ...statement) error {
	return s.inOneTransaction(ctx, ForgetfulSQL, statements...)
}

// inOneTransaction runs statements in one transaction with settings. BEGIN, the settings and the
// statements go to the server in one message, and the answers come back in one. COMMIT is in this
// message too, unless it waits for the disk: then it may also wait for a synchronous standby, and
// follows alone. outbox.NeverCancelCommits can see it only so. If one statement fails, there is no
// COMMIT.
//
// The transaction is READ WRITE and READ COMMITTED, whatever the default of the database or the
// role is: each statement sees what others have committed before it. After the wait for a lock, a
// statement must see what the previous holder committed.
//
// After an error the outcome is unknown if the reply to COMMIT is lost.
func (s *Store) inOneTransaction(ctx context.Context, settings string, statements ...statement) error {
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	all := &pgx.Batch{}
	all.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	all.Queue(settings)
	for _, one := range statements {
		all.Queue(one.sql, one.args).Fn = one.answer
	}
	alone := settings == durableSQL
	if !alone {
		all.Queue("COMMIT").Fn = func(answers pgx.BatchResults) error { return committed(answers.Exec()) }
	}
	err = conn.SendBatch(ctx, all).Close()
	if err == nil && alone {
		err = committed(conn.Exec(ctx, "commit")) // as pgx.Tx sends it
	}
	if err != nil {
		rollBack(ctx, conn.Conn())
	}
	return err
}

// answer reads the answer to the statement.
func (one statement) answer(answers pgx.BatchResults) error {
	rows, err := answers.Query()
	if err == nil {
		defer rows.Close()
		if one.read != nil {
			err = one.read(rows)
		}
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", one.doing, err)
	}
	return nil
}

// committed returns an error if the server answers ROLLBACK to COMMIT.
func committed(answer pgconn.CommandTag, err error) error {
	if err == nil && answer.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// rollBack ends a transaction, also if ctx has ended. The pool closes a connection that is still in
// a transaction.
func rollBack(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}

// InTx runs fn in a transaction and commits it. It rolls back if fn returns an error or panics. The
// transaction is READ COMMITTED, and its statements prefer indexes, as those of [Store.together]
// do; its commit waits for the disk. After 15 s the connection gives up, whatever fn waits for.
func (s *Store) InTx(ctx context.Context, fn func(pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// fn may wait with a context that has no deadline. A deadline in the past ends its wait.
	socket := conn.Conn().PgConn().Conn()
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			_ = conn.Conn().Close(ctx) // it may have that deadline for ever
		}
	}()
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durableSQL); err != nil {
			return err
		}
		return fn(tx)
	})
}

// countInto returns a function that counts the rows of a statement.
func countInto(n *int) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for *n = 0; rows.Next(); {
			*n++
		}
		return rows.Err()
	}
}

// rowInto returns a function that reads the only row of a statement.
func rowInto(columns ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		if !rows.Next() {
			return pgx.ErrNoRows
		}
		return rows.Scan(columns...)
	}
}

// idsSQL makes an array of the parameter @ids, which [IDs] has made.
const idsSQL = `cast(cast(@ids AS text) AS uuid[])`

// IDs is a list of ids as one text. In SQL it is cast(cast(@ids AS text) AS uuid[]).
func IDs(ids []uuid.UUID) string {
	var list strings.Builder
	list.Grow(2 + 37*len(ids))
	list.WriteByte('{')
	for i, id := range ids {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(id.String())
	}
	list.WriteByte('}')
	return list.String()
}
