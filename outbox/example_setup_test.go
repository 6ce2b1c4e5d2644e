package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// example is the testing.TB of an Example, which has none. Its methods that are not here panic.
type example struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
}

func (e *example) Context() context.Context       { return e.ctx }
func (e *example) Helper()                        {}
func (e *example) Cleanup(f func())               { e.cleanups = append(e.cleanups, f) }
func (e *example) Fatal(args ...any)              { panic(fmt.Sprint(args...)) }
func (e *example) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// withDatabase runs an Example with a new database that has the tables of the outbox.
func withDatabase(run func(ctx context.Context, pool *pgxpool.Pool, db *sql.DB)) {
	tb := &example{ctx: context.Background()}
	defer func() {
		for i := range tb.cleanups {
			tb.cleanups[len(tb.cleanups)-1-i]()
		}
	}()
	url := dbtest.URL(tb)
	pool := dbtest.Pool(tb, url)
	if _, err := pool.Exec(tb.ctx, dbtest.Schema(tb), pgx.QueryExecModeSimpleProtocol); err != nil {
		panic(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		panic(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	run(tb.ctx, pool, db)
}
