package operate

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Log is the record of the operators' decisions in a database.
type Log struct {
	// Logger gets a line when Run has deleted something, or could not. The default is slog's.
	Logger *slog.Logger

	store *store.Store
}

// NewLog returns the decisions in the schema of pool. It needs no other table of the outbox.
func NewLog(pool *pgxpool.Pool) *Log { return &Log{slog.Default(), store.New(pool)} }

// Begin commits that by is about to do action to at most these items, and returns the id of the
// row. If it returns an error, change nothing.
func (l *Log) Begin(ctx context.Context, by By, action Action, items []string) (row uuid.UUID, err error) {
	err = inTx(ctx, l.store, "beginning a decision", func(tx pgx.Tx) (err error) {
		row, err = record(ctx, tx, by, action, items, false)
		return err
	})
	return row, err
}

const finishSQL = `
UPDATE operator_decisions SET finished_at = now(), done = cast(@done AS int)
WHERE id = cast(@id AS uuid) AND finished_at IS NULL`

// Finish records how many of the row's items were changed.
func (l *Log) Finish(ctx context.Context, row uuid.UUID, done int) error {
	return inTx(ctx, l.store, "recording the end of the operator's decision", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, finishSQL, args{"id": row.String(), "done": done})
		return err
	})
}

// Decision is one decision of an operator, with all its batches.
type Decision struct {
	By
	Action     Action
	At         time.Time  // of the first batch
	FinishedAt *time.Time // of the last batch; nil if one has not ended
	Chosen     int        // how many items the batches have
	Done       int        // how many are known to be changed
	Batches    int
	Unfinished int // batches without an end
}

// decisionsSQL reads the rows of each decision along the index of decisions.
const decisionsSQL = `
SELECT decision, min(operator) AS operator, min(via) AS via, min(action) AS action, min(filter) AS filter,
       min(at) AS at, CASE WHEN bool_and(finished_at IS NOT NULL) THEN max(finished_at) END AS finished_at,
       sum(chosen)::int AS chosen, coalesce(sum(done), 0)::int AS done, count(*)::int AS batches,
       count(*) FILTER (WHERE finished_at IS NULL)::int AS unfinished
FROM operator_decisions WHERE `

// List returns at most limit decisions, the newest first: those with ids less than before, or the
// newest if before is [uuid.Nil]. The ids are of UUID version 7: their order is about that of time.
func (l *Log) List(ctx context.Context, before uuid.UUID, limit int) ([]Decision, error) {
	if before == uuid.Nil {
		before = uuid.Max
	}
	return readLog[Decision](ctx, l, decisionsSQL+`decision < cast(@before AS uuid) GROUP BY decision ORDER BY decision DESC LIMIT @limit`,
		args{"before": before.String(), "limit": limit})
}

func readLog[T any](ctx context.Context, l *Log, query string, a args) ([]T, error) {
	return read(ctx, l.store, "reading the operators' decisions", query, a, pgx.RowToStructByName[T])
}

// ErrNoDecision means that there is no decision with that id, or that it is pruned.
var ErrNoDecision = errors.New("no such decision")

// Get returns one decision, or [ErrNoDecision].
func (l *Log) Get(ctx context.Context, decision uuid.UUID) (Decision, error) {
	found, err := readLog[Decision](ctx, l, decisionsSQL+`decision = cast(@decision AS uuid) GROUP BY decision`,
		args{"decision": decision.String()})
	return only(found, err, ErrNoDecision)
}

// Batch is a row of the table.
type Batch struct {
	ID uuid.UUID
	By
	Action     Action
	At         time.Time
	Items      []string
	FinishedAt *time.Time
	Done       *int
}

// ofItemsSQL finds the rows by the index of items, and returns only those items that were asked
// for. A sort of all that match comes last, so no plan reads the table in the order of time
// instead.
const ofItemsSQL = `
WITH asked AS MATERIALIZED (SELECT ` + itemsSQL + ` AS items),
found AS MATERIALIZED (
  SELECT * FROM operator_decisions WHERE items && (SELECT items FROM asked)
)
SELECT id, decision, operator, via, action, filter, at,
       ARRAY(SELECT i FROM unnest(items) i WHERE i = ANY (ARRAY(SELECT unnest(items) FROM asked))) AS items,
       finished_at, done
FROM found ORDER BY at DESC, id DESC LIMIT @limit`

// Of returns at most limit batches that are about one of the items, the newest first. Their Items
// are only those that were asked for.
func (l *Log) Of(ctx context.Context, items []string, limit int) ([]Batch, error) {
	a := args{"items": itemsText(items), "limit": limit}
	return readByBitmap(ctx, l.store, "reading the operators' decisions", ofItemsSQL, a, pgx.RowToStructByName[Batch])
}

// Rows are deleted in small batches. Each batch is a short transaction with few locks, and vacuum
// can keep up.
const (
	pruneBatch    = 1000
	pruneInterval = time.Minute
)

// pruneSQL deletes the oldest rows. SKIP LOCKED lets several replicas share the work.
const pruneSQL = `
WITH pruned AS (
  DELETE FROM operator_decisions WHERE id = ANY (ARRAY(
    SELECT id FROM operator_decisions WHERE at < now() - cast(@retention AS float8) * interval '1 second'
    ORDER BY at LIMIT @limit FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*)::int FROM pruned`

// Prune deletes at most limit rows that are older than retention, and returns how many.
func (l *Log) Prune(ctx context.Context, retention time.Duration, limit int) (int, error) {
	a := args{"retention": retention.Seconds(), "limit": limit}
	return readOne(ctx, l.store, "pruning the operators' decisions", pruneSQL, a, pgx.RowTo[int])
}

// Run deletes what is older than retention, once a minute until ctx ends. After an error it tries
// again a minute later.
func (l *Log) Run(ctx context.Context, retention time.Duration) error {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		pruned, err := l.Prune(ctx, retention, pruneBatch)
		if err != nil && ctx.Err() == nil {
			l.Logger.WarnContext(ctx, "cannot prune the operators' decisions", "error", err)
		}
		if pruned > 0 {
			l.Logger.InfoContext(ctx, "pruned the operators' decisions", "rows", pruned)
		}
		if pruned == pruneBatch && ctx.Err() == nil {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
