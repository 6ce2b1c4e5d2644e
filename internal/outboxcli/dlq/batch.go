package dlq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// A batch is held in memory, because its messages are changed after all of them are recorded.
const (
	maxBatch      = 100
	maxBatchBytes = 8 << 20
)

// decisionHeader is in a replayed copy. It names the decision, which the page and the database
// have.
const decisionHeader = "x-operator-decision"

// changing is a change at work.
type changing struct {
	change
	result
	deps     Dependencies
	by       operate.By
	recorder Recorder // nil in a dry run
	letters  Letters

	batch      []rabbitmq.DeadLetter
	batchBytes int
}

// add adds a chosen message to the batch, and changes the batch when it is full.
func (c *changing) add(ctx context.Context, l rabbitmq.DeadLetter) error {
	c.found[l.ID] = true
	if *c.dryRun {
		c.changed = append(c.changed, letterOf(l))
		return nil
	}
	c.batch = append(c.batch, l)
	c.batchBytes += len(l.Body)
	if len(c.batch) == maxBatch || c.batchBytes >= maxBatchBytes {
		return c.changeBatch(ctx)
	}
	return nil
}

// finishTimeout bounds the end of a record. It is written also if the command is interrupted.
const finishTimeout = 10 * time.Second

// changeBatch records the batch, and then changes its messages. The command holds all of them, so
// nobody else changes one in between. The record ends if it is known what became of each message.
// Otherwise it says that at most these were changed.
func (c *changing) changeBatch(ctx context.Context) error {
	batch := c.batch
	if c.batch, c.batchBytes = nil, 0; len(batch) == 0 {
		return nil
	}
	items := make([]string, 0, len(batch))
	for _, l := range batch {
		items = append(items, itemOf(l))
	}
	row, err := c.recorder.Begin(ctx, c.by, c.action, items)
	if err != nil {
		return fmt.Errorf("the decision cannot be recorded, so none of these messages was changed: %w", err)
	}
	done, known, err := c.changeAll(ctx, batch)
	if !known {
		return err
	}
	if removed := c.letters.Removed(); removed != nil {
		return errors.Join(err, fmt.Errorf("the broker did not confirm that the messages are removed: %w", removed))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if failed := c.recorder.Finish(ctx, row, done); failed != nil {
		err = errors.Join(err, fmt.Errorf("the end of the decision cannot be recorded: %w", failed))
	}
	return err
}

// itemOf names a message in the record of a decision. A publisher may have given it no id.
func itemOf(l rabbitmq.DeadLetter) string {
	if l.ID == "" {
		return fmt.Sprintf("without an id, %s at %s", l.Code, l.FailedAt.UTC().Format(time.RFC3339))
	}
	return l.ID
}

// changeAll returns how many messages it has changed, and whether that is known, also with an
// error.
func (c *changing) changeAll(ctx context.Context, batch []rabbitmq.DeadLetter) (done int, known bool, err error) {
	for _, l := range batch {
		if ctx.Err() != nil {
			return done, true, context.Cause(ctx)
		}
		result := c.changeOne(ctx, l)
		switch result.Outcome {
		case publish.Confirmed:
			done++
			c.changed = append(c.changed, letterOf(l))
		case publish.Invalid:
			c.refused = append(c.refused, refusal{letterOf(l), "cannot be sent: " + result.Err.Error()})
		default:
			err := fmt.Errorf("%s (%s) was not %s: %w; %s", l.ID, l.RoutingKey, c.past(), result.Err, cli.Advice(result.Outcome))
			return done, result.Outcome != publish.Unknown, err
		}
	}
	return done, true, nil
}

// changeOne logs a discard before it removes the message, so that none is removed without a line.
func (c *changing) changeOne(ctx context.Context, l rabbitmq.DeadLetter) publish.Result {
	about := []any{
		"message_id", l.ID, "routing_key", l.RoutingKey, "failure_code", l.Code, "failure_reason", l.Reason,
		"size", len(l.Body), "by", c.by.Operator, "decision", c.by.Decision,
	}
	if c.action == operate.Discard {
		slog.InfoContext(ctx, "dead letter discarded", about...)
		if err := c.letters.Discard(l); err != nil {
			return publish.Result{Outcome: publish.Unknown, Err: err}
		}
		return publish.Result{Outcome: publish.Confirmed}
	}
	if l.ID == "" {
		return publish.Result{Outcome: publish.Invalid, Err: errors.New("it has no id, so the consumer would make it a dead letter again: discard it")}
	}
	result := c.letters.Replay(ctx, l, map[string]any{decisionHeader: c.by.Decision.String()})
	if result.Outcome == publish.Confirmed {
		slog.InfoContext(ctx, "dead letter replayed", about...)
	}
	return result
}
