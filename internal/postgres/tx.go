package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

// InGorm runs fn in a transaction and commits. It rolls everything back if fn returns an error or
// panics, or if ctx ends before the commit. The *gorm.DB is for fn alone.
//
// If somebody has changed a column since the connection prepared a statement, the server refuses
// that statement. InGorm then rolls back, and calls fn again in a new transaction. So fn may run
// twice.
//
// The isolation level is READ COMMITTED, whatever the default of the database or the role is: each
// statement sees what others have committed before it. After the wait for a lock, a statement must
// see what the previous holder committed.
//
// The transaction has its own deadline, see [TxTimeout]: a server can vanish, and then only
// a deadline ends the wait for its answer. If the deadline of ctx is earlier, that one holds.
//
// If InGorm returns nil, everything is committed. If it returns an error from the commit itself, the
// outcome is unknown: the reply may be lost, or ctx may have ended during the commit. A caller
// that tries again needs an idempotency key to recognise work that is already done.
func (db *DB) InGorm(ctx context.Context, fn func(*gorm.DB) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.txTimeout)
	defer cancel()
	err := db.gorm.WithContext(ctx).Transaction(fn, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	switch {
	case stalePlan(err) && ctx.Err() == nil:
		return db.InGorm(ctx, fn) // with the same deadline
	case ctx.Err() != nil && (errors.Is(err, sql.ErrTxDone) || errors.Is(err, driver.ErrBadConn)):
		// database/sql has rolled back as soon as ctx ended, or the driver has not sent a statement.
		// Both errors say only that.
		return ctx.Err()
	}
	return err
}

// stalePlan reports whether the columns of a prepared statement's result have changed. The SQLSTATE
// is also that of other errors, and the message is translated.
func stalePlan(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && server.Code == notSupported && server.Routine == "RevalidateCachedQuery"
}
