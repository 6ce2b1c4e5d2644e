package operate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Operator finds the events of an outbox, and replays or discards those that failed.
type Operator struct {
	// Logger gets a line for each event that is changed. The default is slog's.
	Logger *slog.Logger

	store       *store.Store
	log         *Log
	failedUntil time.Time
}

// New returns an operator of the outbox in the schema of pool.
func New(pool *pgxpool.Pool) *Operator {
	return &Operator{
		Logger: slog.Default(), store: store.New(pool), log: NewLog(pool),
		failedUntil: time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC),
	}
}

// AsOf returns an operator that changes only events that had failed at this time. An event that was
// replayed since, and failed again, is not what a person has seen.
func (o *Operator) AsOf(seen time.Time) *Operator {
	other := *o
	other.failedUntil = seen
	return &other
}

// Now is the database's time. An operator's "an hour ago" counts from it.
func (o *Operator) Now(ctx context.Context) (time.Time, error) {
	now, err := read(ctx, o.store, "SELECT now()", args{}, pgx.RowTo[time.Time])
	if err != nil {
		return time.Time{}, fmt.Errorf("asking the database for the time: %w", err)
	}
	return now[0].UTC(), nil
}

// args are the values of a statement's @names: one for each name, and no others.
type args = pgx.StrictNamedArgs

// read runs one query in a transaction of its own.
func read[T any](ctx context.Context, s *store.Store, query string, a args, scan pgx.RowToFunc[T]) (found []T, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		found, err = collect(ctx, tx, query, a, scan)
		return err
	})
	return found, err
}

// readByBitmap is read for a query that needs an index of kind GIN or BRIN. These can only be read
// by a bitmap scan, which InTx switches off.
func readByBitmap[T any](ctx context.Context, s *store.Store, query string, a args, scan pgx.RowToFunc[T]) (found []T, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('enable_bitmapscan', 'on', true)"); err != nil {
			return err
		}
		found, err = collect(ctx, tx, query, a, scan)
		return err
	})
	return found, err
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
