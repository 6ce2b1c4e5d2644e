// Command cursor reads an outbox with two cursors, while writers add to it. One reads seq > last,
// and loses events. The other one reads between two snapshots, as PgQ does, and loses none.
//
// This file has the two cursors. lead.go makes sure that there is one reader, and race.go has the
// writers and the counting.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func main() { os.Exit(run(os.Args[1:])) }

const tables = `
CREATE TABLE orders (id uuid PRIMARY KEY, version int NOT NULL);
CREATE TABLE events (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- given at INSERT, not at COMMIT
  order_id uuid NOT NULL, version int NOT NULL, UNIQUE (order_id, version),
  -- The top transaction's number, also inside a savepoint. The row's own xmin is not.
  xid xid8 NOT NULL DEFAULT pg_current_xact_id());
CREATE INDEX ON events (xid, seq);
CREATE TABLE journal ( -- a row for each published batch; the newest one is the position
  batch bigint PRIMARY KEY, -- two readers cannot store the same batch
  older pg_snapshot NOT NULL, newer pg_snapshot, seq bigint NOT NULL, events int NOT NULL,
  cluster bigint NOT NULL DEFAULT (pg_control_system()).system_identifier);
INSERT INTO journal VALUES (0, '1:1:', NULL, 0, 0) -- no transaction is visible in 1:1:`

// event is a row of the outbox, without its payload.
type event struct {
	Seq     int64
	OrderID uuid.UUID
	Version int
}

// publish publishes a page of events. If it returns no error, all of them are published.
type publish func(context.Context, []event) error

// bySeqSQL loses events. A row gets its seq at INSERT and becomes visible at COMMIT. So a smaller
// seq can become visible after a larger one, and then the cursor has already passed it.
const bySeqSQL = `SELECT seq, order_id, version FROM events WHERE seq > $1 ORDER BY seq LIMIT $2`

type bySeq struct {
	db      *pgx.Conn
	publish publish
	page    int
	last    int64
}

func (r *bySeq) pass(ctx context.Context) (int, error) {
	events, err := query(ctx, r.db, r.publish, bySeqSQL, r.last, r.page)
	if n := len(events); n > 0 {
		r.last = events[n-1].Seq
	}
	return len(events), err
}

// windowSQL opens a window. The window begins at $1, the snapshot up to which all is published, and
// ends at the snapshot of this statement. The result has the least seq of the window, or null.
//
//	xid >= xmax   rows of transactions that began to write after $1
//	xid = ANY …   rows of transactions that were open at $1 and have committed since
//
// Never ask for xid >= xmin: as long as an old transaction is open, xmin stays, and each window
// would read all rows since then. MATERIALIZED keeps the two conditions apart from min. For a plain
// min(seq) with xid >= xmax, PostgreSQL 15 looks from the table's first row on.
const windowSQL = `
WITH new AS MATERIALIZED (
  SELECT seq FROM events WHERE xid >= pg_snapshot_xmax($1)
  UNION ALL
  SELECT seq FROM events WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1))))
SELECT pg_current_snapshot()::text, min(seq) FROM new`

// pageSQL reads the next page of the window from $1 to $2.
//
//	seq > $3           what follows the last page
//	not visible in $1  it was not in an earlier window
//	visible in $2      it belongs to this window, and not to a later one
//	ORDER BY seq       keeps the order of each order's events, because the writer locks the order
//	                   before it inserts. ORDER BY xid would not: a transaction may get its number
//	                   before it waits for that lock
const pageSQL = `
SELECT seq, order_id, version FROM events
WHERE seq > $3 AND NOT pg_visible_in_snapshot(xid, $1) AND pg_visible_in_snapshot(xid, $2)
ORDER BY seq LIMIT $4`

// storeSQL says in one statement, and so in one transaction, that the batch is published and where
// the next one begins.
const storeSQL = `
INSERT INTO journal (batch, older, newer, seq, events)
VALUES ($1, $2, nullif($3, '')::pg_snapshot, $4, $5)`

// bySnapshot is the cursor that loses nothing. Call lead before the first pass, and after each
// error.
type bySnapshot struct {
	db      *pgx.Conn
	publish publish
	page    int
	position
}

// position says what is published: all events that are visible in older, and up to seq those that
// are visible in newer.
type position struct {
	batch        int64
	older, newer string // snapshots; newer is empty when no window is open
	seq          int64
}

// pass publishes the next page. It returns 0 if there is nothing new. It uses no transaction around
// its statements, so none is open while publish runs. Also, the snapshot must not come from a
// transaction that writes, because such a transaction sees its own rows.
func (r *bySnapshot) pass(ctx context.Context) (int, error) {
	next := r.position
	opens := next.newer == ""
	if opens {
		var first *int64
		err := r.db.QueryRow(ctx, windowSQL, next.older).Scan(&next.newer, &first)
		if err != nil || first == nil {
			return 0, err // an empty window is not stored
		}
		next.seq = *first - 1
	}
	events, err := query(ctx, r.db, r.publish, pageSQL, next.older, next.newer, next.seq, r.page)
	if err != nil {
		return 0, err
	}
	n := len(events)
	if n < r.page { // the window's last page
		next.older, next.newer = next.newer, ""
	}
	if n == 0 && opens {
		return 0, errors.New("windowSQL has found an event that pageSQL has not")
	}
	if n == 0 { // the page before was full, and the last one
		r.position = next
		return r.pass(ctx)
	}
	next.batch, next.seq = next.batch+1, events[n-1].Seq
	_, err = r.db.Exec(ctx, storeSQL, next.batch, next.older, next.newer, next.seq, n)
	if err == nil {
		r.position = next
	}
	return n, err
}

func query(ctx context.Context, db *pgx.Conn, publish publish, sql string, args ...any) ([]event, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns the error
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	if err == nil && len(events) > 0 {
		err = publish(ctx, events)
	}
	return events, err
}
