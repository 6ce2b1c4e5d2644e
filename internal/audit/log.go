package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Log is the operators' decisions in a database.
type Log struct{ db *postgres.DB }

// NewLog returns the decisions in db.
func NewLog(db *postgres.DB) *Log { return &Log{db: db} }

// Begin commits that by is about to do action to at most these items, and returns the id of the row.
// If it returns an error, change nothing.
func (l *Log) Begin(ctx context.Context, by By, action Action, items []string) (id uuid.UUID, err error) {
	err = l.db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		id, err = insert(tx, by, action, items, false)
		return err
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("recording the operator's decision: %w", err)
	}
	return id, nil
}

const finishSQL = `
UPDATE operator_decisions SET finished_at = now(), done = @done WHERE id = @id AND finished_at IS NULL`

// Finish records how many of the row's items were changed.
func (l *Log) Finish(ctx context.Context, id uuid.UUID, done int) error {
	err := l.db.InTx(ctx, func(tx *postgres.Tx) error {
		return tx.Write("", finishSQL, postgres.Args{"id": id, "done": done})
	})
	if err != nil {
		return fmt.Errorf("recording the end of the operator's decision: %w", err)
	}
	return nil
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

// decisionSQL reads the rows of each decision along the index of decisions.
const decisionSQL = `
SELECT decision, min(operator) AS operator, min(via) AS via, min(action) AS action, min(filter) AS filter,
       min(at) AS at, CASE WHEN bool_and(finished_at IS NOT NULL) THEN max(finished_at) END AS finished_at,
       sum(chosen)::int AS chosen, coalesce(sum(done), 0)::int AS done, count(*)::int AS batches,
       count(*) FILTER (WHERE finished_at IS NULL)::int AS unfinished
FROM operator_decisions`

const listSQL = decisionSQL + `
WHERE decision < @before GROUP BY decision ORDER BY decision DESC LIMIT @limit`

// List returns at most limit decisions, the newest first: those with ids less than before, or the
// newest if before is [uuid.Nil]. The ids are of UUID version 7: their order is about that of time.
func (l *Log) List(ctx context.Context, before uuid.UUID, limit int) ([]Decision, error) {
	if before == uuid.Nil {
		before = uuid.Max
	}
	return read[Decision](ctx, l.db, listSQL, postgres.Args{"before": before, "limit": limit})
}

// ErrNoDecision means that there is no decision with that id, or that it is pruned.
var ErrNoDecision = errors.New("no such decision")

const getSQL = decisionSQL + `
WHERE decision = @decision GROUP BY decision`

// Get returns one decision, or [ErrNoDecision].
func (l *Log) Get(ctx context.Context, decision uuid.UUID) (Decision, error) {
	found, err := read[Decision](ctx, l.db, getSQL, postgres.Args{"decision": decision})
	if err == nil && len(found) == 0 {
		err = ErrNoDecision
	}
	if err != nil {
		return Decision{}, err
	}
	return found[0], nil
}

// preferIndexesSQL is not [postgres.Tx.UseIndexes]: an index of items needs bitmap scans.
const preferIndexesSQL = `SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

func read[T any](ctx context.Context, db *postgres.DB, query string, args postgres.Args) (found []T, err error) {
	err = db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		if err := tx.Write("preferring indexes", preferIndexesSQL, nil); err != nil {
			return err
		}
		found, err = postgres.Read(ctx, tx, query, args, pgx.RowToStructByName[T])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the operators' decisions: %w", err)
	}
	return found, nil
}
