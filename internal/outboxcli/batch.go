package outboxcli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// A change of dead letters works in batches. It takes the messages of a batch, and while it holds
// them nobody else can change them. Then it records their ids in the database, and only then it
// changes them. No transaction spans the database and the broker, so a process can die in between:
//
//   - Before the record: nothing is changed.
//   - After it: the record has no end. It says that at most these messages were changed.
//   - A replayed copy has the header x-operator-decision, also if the record has no end.
//
// A record has an end when the broker has removed what was changed, and the number is known.

// A batch is held in memory, because its messages are changed after all of them are recorded.
const (
	maxBatch      = 100
	maxBatchBytes = 8 << 20
)

// decisionHeader is in a replayed copy. It names the decision, which the database has.
const decisionHeader = "x-operator-decision"

func (c deadLetters) decide(ctx context.Context, e *env, d *decision, ids []text) error {
	found := map[text]bool{}
	work := func(log recorder) error {
		return e.letters(ctx, func(ctx context.Context, all letters) error {
			var batch []rabbitmq.DeadLetter
			size := 0
			for l, err := range c.chosen(ctx, e, all, ids) {
				if err != nil {
					return err
				}
				found[text(l.ID)] = true
				batch, size = append(batch, l), size+len(l.Body)
				if len(batch) == maxBatch || size >= maxBatchBytes {
					if err := d.change(ctx, all, log, batch); err != nil {
						return err
					}
					batch, size = nil, 0
				}
			}
			return d.change(ctx, all, log, batch)
		})
	}
	var err error
	if d.dryRun {
		err = work(nil)
	} else {
		err = e.recorder(ctx, work)
	}
	for _, id := range ids {
		if err == nil && !found[id] {
			d.left = append(d.left, c.notFound(e, id))
		}
	}
	return err
}

// finishTimeout bounds the end of a record. It is written also if the command is interrupted.
const finishTimeout = 10 * time.Second

// change records a batch, and then changes its messages. The record ends if it is known what became
// of each message.
func (d *decision) change(ctx context.Context, from letters, log recorder, batch []rabbitmq.DeadLetter) error {
	if d.dryRun || len(batch) == 0 {
		for _, l := range batch {
			d.did(letterOf(l))
		}
		return nil
	}
	items := make([]string, 0, len(batch))
	for _, l := range batch {
		items = append(items, cmp.Or(l.ID, fmt.Sprintf("without an id, %s at %s", l.Code, l.FailedAt.UTC().Format(time.RFC3339))))
	}
	row, err := log.Begin(ctx, d.by, d.action, items)
	if err != nil {
		return fmt.Errorf("the decision cannot be recorded, so none of these messages was changed: %w", err)
	}
	before := d.done
	known, err := d.changeAll(ctx, from, batch)
	if !known {
		return err
	}
	if removed := from.Removed(); removed != nil {
		return errors.Join(err, fmt.Errorf("the broker did not confirm that the messages are removed: %w", removed))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if failed := log.Finish(ctx, row, d.done-before); failed != nil {
		err = errors.Join(err, fmt.Errorf("the end of the decision cannot be recorded: %w", failed))
	}
	return err
}

// changeAll returns whether it is known how many messages it has changed, also with an error.
func (d *decision) changeAll(ctx context.Context, from letters, batch []rabbitmq.DeadLetter) (known bool, err error) {
	for _, l := range batch {
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		switch result := d.changeOne(ctx, from, l); result.Outcome {
		case publish.Confirmed:
			d.did(letterOf(l))
		case publish.Invalid:
			d.left = append(d.left, printable(fmt.Sprintf("%s cannot be sent: %v", cmp.Or(l.ID, "one without an id"), result.Err)))
		default:
			return result.Outcome != publish.Unknown,
				fmt.Errorf("%s (%s) was not %s: %w; %s", printable(l.ID), printable(l.RoutingKey), d.past(), result.Err, advice(result.Outcome))
		}
	}
	return true, nil
}

// changeOne logs a discard before it removes the message, so that none is removed without a line.
func (d *decision) changeOne(ctx context.Context, from letters, l rabbitmq.DeadLetter) publish.Result {
	about := []any{
		"message_id", l.ID, "routing_key", l.RoutingKey, "failure_code", l.Code, "failure_reason", l.Reason,
		"size", len(l.Body), "by", d.by.Operator, "decision", d.by.Decision,
	}
	if d.action == operate.Discard {
		slog.InfoContext(ctx, "dead letter discarded", about...)
		if err := from.Discard(l); err != nil {
			return publish.Result{Outcome: publish.Unknown, Err: err}
		}
		return publish.Result{Outcome: publish.Confirmed}
	}
	if l.ID == "" {
		return publish.Result{Outcome: publish.Invalid, Err: errors.New("it has no id, so the consumer would make it a dead letter again: discard it")}
	}
	result := from.Replay(ctx, l, map[string]any{decisionHeader: d.by.Decision.String()})
	if result.Outcome == publish.Confirmed {
		slog.InfoContext(ctx, "dead letter replayed", about...)
	}
	return result
}
