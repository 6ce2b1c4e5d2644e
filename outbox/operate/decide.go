package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Result is what a decision did.
type Result struct {
	Changed []Event // ordered by id, as they are now
	Refused []Refusal
}

// Refusal is why a decision left an event as it was.
type Refusal struct {
	ID     uuid.UUID
	Reason string // after the id it is a sentence, such as "is published, not failed"
	Failed bool   // it has failed, and needs another decision
}

func (r Refusal) String() string { return r.ID.String() + " " + r.Reason }

const (
	chosenSQL = `id = ANY (cast(cast(@ids AS text) AS uuid[]))`
	// decidableSQL is true for the events that have failed, and for those that the decision has
	// claimed.
	decidableSQL = `(failed_at <= cast(@failed_until AS timestamptz)
    OR failed_at IS NULL AND id = ANY (cast(cast(@held AS text) AS uuid[])))`
)

// lockSQL locks the events that an operator decides about. If two operators choose the same events,
// the second waits for the first, and then finds no failed events. Everybody locks events in the
// order of their ids, so no two decisions deadlock. A decision and a late confirm can, because the
// confirm makes the next event due: then the decision is an error, and has changed nothing.
const lockSQL = `SELECT id FROM outbox_queue WHERE ` + chosenSQL + ` AND ` + decidableSQL + ` ORDER BY id FOR UPDATE`

// boundSQL bounds each wait for a lock, also after the operator's process has died: until its
// transaction ends, nobody else can have what it has claimed.
const boundSQL = `SET LOCAL lock_timeout = '5s'`

// replaySQL resets failed events to the state of new ones, due now. The failure remains in the
// logs, and in the record of the decision.
const replaySQL = `
UPDATE outbox_queue
SET retry_count = 0, refused_since = NULL, available_at = now(), due_since = now(), halted = false,
    failure_code = NULL, failure_reason = NULL, failed_at = NULL
WHERE ` + chosenSQL + ` AND ` + decidableSQL + `
RETURNING id`

// Replay makes the failed ones of these events pending. The later events of their aggregates
// follow them. It refuses an event that a newer one has superseded, and one whose payload is gone.
//
// It decides about 1,000 events at a time, in the order of their ids, each time in one transaction
// with the record of who decided that. After an error the result has what was decided before it.
// By.Once is for 1,000 ids at most.
func (o *Operator) Replay(ctx context.Context, by By, ids []uuid.UUID) (Result, error) {
	return o.decideIDs(ctx, by, Replay, ids)
}

// discardSQL keeps the reason and the time of the failure: they explain the decision.
const discardSQL = `
WITH done AS (
  DELETE FROM outbox_queue WHERE ` + chosenSQL + ` AND ` + decidableSQL + `
  RETURNING *, 'discarded' AS status
)` + store.RecordSQL + `
RETURNING id`

// Discard discards those of these events that have failed, or wait because their topic is paused.
// It refuses an event that a relay has claimed, and may still send. The others will never be
// published. The later events of their aggregates no longer wait for them. It decides as
// [Operator.Replay] does.
func (o *Operator) Discard(ctx context.Context, by By, ids []uuid.UUID) (Result, error) {
	return o.decideIDs(ctx, by, Discard, ids)
}

// DryRun returns what Replay or Discard would do now. Its events are as they are.
func (o *Operator) DryRun(ctx context.Context, action Action, ids []uuid.UUID) (Result, error) {
	found, err := o.Get(ctx, ids...)
	if err != nil {
		return Result{}, err
	}
	return o.judge(action, ids, found, nil), nil
}

// MaxDecided is how many events [Operator.DecideAll] changes at most. All of them are changed in one
// transaction.
const MaxDecided = 10_000

// ErrChanged means that a filter does not select what the operator has seen. Nothing was changed.
var ErrChanged = errors.New("somebody has decided about some of these events since you looked")

// DecideAll replays or discards the failed events that f selects, the oldest failures first, in one
// transaction with the record of it. If these are not what the operator has seen, it changes
// nothing, and returns [ErrChanged]. Events that have failed since are left as they are.
//
// Its result has the changed events as they were.
func (o *Operator) DecideAll(ctx context.Context, by By, action Action, f Filter, seen Matching) (Result, error) {
	if f.Before.IsZero() || seen.At.Before(f.Before) {
		f.Before = seen.At
	}
	f.Newest = false
	with, a := f.failed(Cursor{}, MaxDecided)
	return o.AsOf(seen.At).decide(ctx, by, action, uuid.Nil, func(ctx context.Context, tx pgx.Tx, _ []uuid.UUID) ([]uuid.UUID, error) {
		ids, err := collect(ctx, tx, with+`SELECT id FROM found ORDER BY failed_at, id`, a, pgx.RowTo[uuid.UUID])
		if err != nil {
			return nil, err
		}
		locked, err := tx.Exec(ctx, lockSQL, o.AsOf(seen.At).lockArgs(ids, nil))
		if err == nil && int(locked.RowsAffected()) != seen.Count {
			err = ErrChanged
		}
		return ids, err
	}, func(context.Context, pgx.Tx, *Result, []uuid.UUID) error { return nil })
}

var changeSQL = map[Action]string{Replay: replaySQL, Discard: discardSQL}

func (o *Operator) lockArgs(ids, held []uuid.UUID) args {
	return args{"ids": store.IDs(ids), "failed_until": o.failedUntil, "held": store.IDs(held)}
}

// maxPage is how many events that an operator has named one transaction decides about.
const maxPage = 1000

// decideIDs decides about events that the operator has named, page by page.
func (o *Operator) decideIDs(ctx context.Context, by By, action Action, ids []uuid.UUID) (all Result, err error) {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	for page := range slices.Chunk(slices.Compact(ids), maxPage) {
		r, err := o.decidePage(ctx, by, action, page)
		if err != nil {
			return all, err
		}
		all = Result{append(all.Changed, r.Changed...), append(all.Refused, r.Refused...)}
		by.Once = uuid.Nil // it is the id of one record
	}
	return all, nil
}

// decidePage decides in one transaction. What is to be discarded and has not failed is claimed first:
// a relay could claim it while it is discarded, because a claim locks no row.
func (o *Operator) decidePage(ctx context.Context, by By, action Action, page []uuid.UUID) (Result, error) {
	token := uuid.Nil
	if action == Discard {
		var err error
		token, err = o.store.Hold(ctx, fit(by.Operator, maxOperator), page)
		defer o.store.LetGo(ctx, token)
		if err != nil {
			return Result{}, explain(err)
		}
	}
	return o.decide(ctx, by, action, token, func(ctx context.Context, tx pgx.Tx, held []uuid.UUID) ([]uuid.UUID, error) {
		_, err := tx.Exec(ctx, lockSQL, o.lockArgs(page, held))
		return page, err
	}, func(ctx context.Context, tx pgx.Tx, r *Result, changed []uuid.UUID) (err error) {
		r.Changed, err = get(ctx, tx, changed)
		return err
	})
}

// decide runs a decision about the events that choose returns and has locked, and records it. The
// record has the ids that were changed, and not those that were chosen. It may also change the
// events of the claim with this token.
func (o *Operator) decide(
	ctx context.Context, by By, action Action, token uuid.UUID, choose func(ctx context.Context, tx pgx.Tx, held []uuid.UUID) ([]uuid.UUID, error),
	finally func(context.Context, pgx.Tx, *Result, []uuid.UUID) error,
) (r Result, err error) {
	err = inTx(ctx, o.store, "the decision to "+string(action), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, boundSQL); err != nil {
			return err
		}
		held, err := collect(ctx, tx, store.HeldSQL, args{"token": token.String()}, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		ids, err := choose(ctx, tx, held)
		if err != nil {
			return err
		}
		found, err := get(ctx, tx, ids)
		if err != nil {
			return err
		}
		if r = o.judge(action, ids, found, held); len(r.Changed) == 0 {
			return nil
		}
		changed, err := collect(ctx, tx, changeSQL[action], o.lockArgs(IDsOf(r.Changed), held), pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		r.keep(changed)
		if action == Discard {
			if _, err := tx.Exec(ctx, store.PromoteSQL, args{"aggregates": aggregatesOf(r.Changed)}); err != nil {
				return err
			}
		}
		if err := finally(ctx, tx, &r, changed); err != nil {
			return err
		}
		_, err = record(ctx, tx, by, action, IDs(changed), true)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	for _, e := range r.Changed {
		o.Logger.InfoContext(ctx, "event "+string(action)+"ed", //nolint:sloglint // one of two
			"message_id", e.ID, "topic", e.Topic, "aggregate_id", e.AggregateID, "by", by.Operator)
	}
	return r, nil
}

// keep refuses what was to be changed, and is not among the ids that were: its topic was paused or
// resumed, or its claim ended, while the decision was made.
func (r *Result) keep(ids []uuid.UUID) {
	changed := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		changed[id] = true
	}
	r.Changed = slices.DeleteFunc(r.Changed, func(e Event) bool {
		if !changed[e.ID] {
			r.Refused = append(r.Refused, Refusal{e.ID, "has changed meanwhile: try again", false})
		}
		return !changed[e.ID]
	})
}

func aggregatesOf(events []Event) string {
	all := make([]store.Event, len(events))
	for i, e := range events {
		all[i].Aggregate, all[i].AggregateID = e.Aggregate, e.AggregateID
	}
	return store.Aggregates(all)
}

func get(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]Event, error) {
	return collect(ctx, tx, getSQL, args{"ids": store.IDs(ids)}, pgx.RowToStructByName[Event])
}

// judge says which events a decision may change.
func (o *Operator) judge(action Action, ids []uuid.UUID, found []Event, held []uuid.UUID) (r Result) {
	known := make(map[uuid.UUID]bool, len(found))
	for _, e := range found {
		known[e.ID] = true
		if reason := o.refusal(action, e); reason != "" && !slices.Contains(held, e.ID) {
			r.Refused = append(r.Refused, Refusal{e.ID, reason, e.Status == Failed})
		} else {
			r.Changed = append(r.Changed, e)
		}
	}
	for _, id := range ids {
		if !known[id] {
			r.Refused = append(r.Refused, Refusal{id, "is not in the outbox", false})
		}
	}
	return r
}

// refusal is why an event must stay as it is, or "".
func (o *Operator) refusal(action Action, e Event) string {
	switch {
	case e.Status == Superseded:
		return fmt.Sprintf("is not sent: a newer event of %s %s has superseded it", e.Aggregate, e.AggregateID)
	case e.Paused && action == Discard && e.Worker != "": // a relay may still send it
		return "is claimed by " + e.Worker + ": try again when the claim has ended"
	case e.Paused && action == Discard:
		return ""
	case e.Status != Failed:
		return "is " + e.Status + ", not failed"
	case e.FailedAt.After(o.failedUntil):
		return "has failed again since you looked"
	case e.CreatedAt.IsZero() && action == Replay:
		return "cannot be sent: its payload is gone from the log"
	default:
		return ""
	}
}
