package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/store"
)

// ErrNoSchema means that the tables are missing, or are older than this package.
var ErrNoSchema = errors.New("outbox: the tables are missing or old: run Migrate")

// Operator finds the events of an outbox, replays or discards those that failed, and pauses topics.
type Operator struct {
	// Logger gets a line for each event or topic that is changed. The default is slog's.
	Logger *slog.Logger

	store       *store.Store
	log         *Log
	failedUntil time.Time
}

// New returns an operator of the outbox in the schema of pool.
func New(pool *pgxpool.Pool) *Operator {
	return &Operator{Logger: slog.Default(), store: store.New(pool), log: NewLog(pool), failedUntil: endOfTime}
}

// endOfTime is later than any time of an event. Two modes of pgx cannot send 'infinity'.
var endOfTime = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// AsOf returns an operator that replays and discards only events that had failed at this time. An
// event that was replayed since, and failed again, is not what a person has seen.
func (o *Operator) AsOf(seen time.Time) *Operator {
	other := *o
	other.failedUntil = seen
	return &other
}

// Now is the database's time. An operator's "an hour ago" counts from it.
func (o *Operator) Now(ctx context.Context) (time.Time, error) {
	now, err := readOne(ctx, o.store, "asking for the time", "SELECT now()", args{}, pgx.RowTo[time.Time])
	return now.UTC(), err
}

// Backlog has the numbers of events that are not done.
type Backlog struct {
	Pending, InProgress, Failed int     // events with this status
	Paused                      int     // pending events whose topic is paused
	PausedTopics                int     // also those that an operator has paused
	OldestDue                   float64 // seconds since the oldest due event became due; 0 if none is due
	OldestRefused               float64 // seconds for which a pending event has been refused; 0 if none is
	// OldestUnfinished is in seconds since the oldest event was due, or replayed, that is not done
	// and has not failed, whatever it waits for; 0 if there is none.
	OldestUnfinished float64
}

// Backlog counts the unfinished events. It estimates numbers above limit.
func (o *Operator) Backlog(ctx context.Context, limit int) (Backlog, error) {
	b, err := o.store.Backlog(ctx, limit)
	return Backlog(b), explain(err)
}

// args are the values of a statement's @names: one for each name, and no others.
type args = pgx.StrictNamedArgs

// inTx runs fn in a transaction. Its error begins with what was being done.
func inTx(ctx context.Context, s *store.Store, doing string, fn func(pgx.Tx) error) error {
	if err := s.InTx(ctx, fn); err != nil {
		return fmt.Errorf("%s: %w", doing, explain(err))
	}
	return nil
}

// explain adds ErrNoSchema to the errors that missing tables and columns cause.
func explain(err error) error {
	if store.IsNoSchema(err) {
		return fmt.Errorf("%w: %w", ErrNoSchema, err)
	}
	return err
}

// read runs one query in a transaction of its own.
func read[T any](ctx context.Context, s *store.Store, doing, query string, a args, scan pgx.RowToFunc[T]) (rows []T, err error) {
	err = inTx(ctx, s, doing, func(tx pgx.Tx) error {
		rows, err = collect(ctx, tx, query, a, scan)
		return err
	})
	return rows, err
}

// readOne is read for a query that always has one row.
func readOne[T any](ctx context.Context, s *store.Store, doing, query string, a args, scan pgx.RowToFunc[T]) (row T, err error) {
	rows, err := read(ctx, s, doing, query, a, scan)
	return only(rows, err, pgx.ErrNoRows)
}

// only returns what a query has found, or the error for nothing.
func only[T any](found []T, err, nothing error) (one T, _ error) {
	if err == nil && len(found) == 0 {
		err = nothing
	}
	if err != nil {
		return one, err
	}
	return found[0], nil
}

// readByBitmap is read for a query that needs an index of kind GIN or BRIN. These can only be read
// by a bitmap scan, which InTx switches off.
func readByBitmap[T any](ctx context.Context, s *store.Store, doing, query string, a args, scan pgx.RowToFunc[T]) (rows []T, err error) {
	err = inTx(ctx, s, doing, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('enable_bitmapscan', 'on', true)"); err != nil {
			return err
		}
		rows, err = collect(ctx, tx, query, a, scan)
		return err
	})
	return rows, err
}

// collect runs one query of a transaction.
func collect[T any](ctx context.Context, tx pgx.Tx, query string, a args, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, err := tx.Query(ctx, query, a)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// IDs returns ids as the items of a [Log].
func IDs(ids []uuid.UUID) []string {
	items := make([]string, 0, len(ids))
	for _, id := range ids {
		items = append(items, id.String())
	}
	return items
}

// IDsOf returns the ids of events.
func IDsOf(events []Event) []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(events))
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}
