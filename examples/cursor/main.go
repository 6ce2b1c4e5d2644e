// Command cursor reads an outbox with two cursors, while writers add to it. One reads seq > last,
// and loses events. The other one reads between two snapshots, as PgQ does, and loses none.
// DATABASE_URL says where PostgreSQL is.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const setup = `
DROP SCHEMA IF EXISTS example_cursor CASCADE; -- of the last run
CREATE SCHEMA example_cursor;
CREATE TABLE events (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- given at INSERT, not at COMMIT
  -- The number of the transaction, also in a savepoint. The row's own xmin is not.
  xid xid8 NOT NULL DEFAULT pg_current_xact_id());
CREATE INDEX ON events (xid)`

const addSQL = `INSERT INTO events DEFAULT VALUES`

// bySeqSQL loses events. A row gets its seq at INSERT and becomes visible at COMMIT. So a smaller
// seq can become visible after a larger one, and then the cursor has already passed it.
const bySeqSQL = `
SELECT seq::text AS position, seq FROM events
WHERE seq > $1
ORDER BY seq`

// windowSQL reads a window: what has become visible since the snapshot $1. The second line of WHERE
// finds the transactions that were open at $1, whatever their seq. PostgreSQL itself leaves out
// what is not committed now: the statement sees what pg_current_snapshot() sees, and the next
// window begins there. Do not run it in a transaction that writes: that one sees its own rows.
//
// ORDER BY seq keeps the order of each aggregate, if the writer locks the aggregate's row before it
// inserts the event. ORDER BY xid would not: a transaction may have its number before that lock.
const windowSQL = `
SELECT pg_current_snapshot()::text AS position, seq FROM events
WHERE xid >= pg_snapshot_xmax($1)
   OR xid = ANY (ARRAY(SELECT pg_snapshot_xip($1)))
ORDER BY seq`

// cursor has the query that reads on from its position. The query's first column is the next
// position. A relay stores it in a table after it has published the events.
type cursor struct {
	query, position string
	read            []int64 // the seq of each event
}

func newBySeq() *cursor { return &cursor{query: bySeqSQL, position: "0"} }

// In the snapshot 1:1: no transaction is visible.
func newBySnapshot() *cursor { return &cursor{query: windowSQL, position: "1:1:"} }

// next reads what is new. If nothing is, the position stays.
func (c *cursor) next(ctx context.Context, db *pgxpool.Pool) error {
	rows, _ := db.Query(ctx, c.query, c.position) // ForEachRow returns the error
	var seq int64
	_, err := pgx.ForEachRow(rows, []any{&c.position, &seq}, func() error {
		c.read = append(c.read, seq)
		return nil
	})
	return err
}

func main() {
	if err := run(context.Background(), cmp.Or(os.Getenv("DATABASE_URL"), "not set"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cursor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, out io.Writer) error {
	db, err := open(ctx, url)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer db.Close()
	bySeq, bySnapshot := newBySeq(), newBySnapshot()
	if err := commitLate(ctx, db, bySeq, bySnapshot); err != nil {
		return fmt.Errorf("committing an event late: %w", err)
	}
	if err := race(ctx, db, bySeq, bySnapshot); err != nil {
		return err
	}
	var committed int
	if err := db.QueryRow(ctx, "SELECT count(*) FROM events").Scan(&committed); err != nil {
		return fmt.Errorf("counting what is committed: %w", err)
	}
	_, _ = fmt.Fprintln(out, "cursor            committed   read missed  twice")
	print := func(name string, c *cursor) {
		distinct := len(slices.Compact(slices.Sorted(slices.Values(c.read)))) // all of them are committed
		_, _ = fmt.Fprintf(out, "%-17s %9d %6d %6d %6d\n",
			name, committed, len(c.read), committed-distinct, len(c.read)-distinct)
	}
	print("seq > last", bySeq)
	print("between snapshots", bySnapshot)
	return nil
}

// open empties the schema of this example.
func open(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = "example_cursor"
	config.MaxConns = writers + 2 // and the two cursors
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(ctx, setup); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// commitLate commits event 1 after event 2 has been read.
func commitLate(ctx context.Context, db *pgxpool.Pool, cursors ...*cursor) error {
	return pgx.BeginFunc(ctx, db, func(slow pgx.Tx) error {
		_, err1 := slow.Exec(ctx, addSQL)
		_, err2 := db.Exec(ctx, addSQL) // commits at once
		err := errors.Join(err1, err2)
		for _, c := range cursors {
			err = errors.Join(err, c.next(ctx, db))
		}
		return err
	})
}

const writers, transactions = 8, 100 // each writer has so many transactions

// race reads with the cursors while the writers add events, and once more after they have ended.
func race(ctx context.Context, db *pgxpool.Pool, cursors ...*cursor) error {
	var writing, reading errgroup.Group
	var written atomic.Bool
	for range writers {
		writing.Go(func() error { return write(ctx, db) })
	}
	for _, c := range cursors {
		reading.Go(func() error {
			for last := false; !last; {
				last = written.Load()
				if err := c.next(ctx, db); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := writing.Wait()
	written.Store(true)
	return errors.Join(err, reading.Wait())
}

// write rolls back one of ten transactions. Another one takes longer than the others.
func write(ctx context.Context, db *pgxpool.Pool) error {
	rollback := errors.New("rolled back on purpose")
	for i := range transactions {
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, addSQL)
			if i%10 == 3 {
				err = errors.Join(err, rollback)
			}
			if i%10 == 7 {
				time.Sleep(30 * time.Millisecond) // nothing is awaited: this is the load
			}
			return err
		})
		if err != nil && !errors.Is(err, rollback) {
			return err
		}
	}
	return nil
}
