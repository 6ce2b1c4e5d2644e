package outboxcli

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
)

func (c decision) run(ctx context.Context, d Dependencies) error {
	next, total, err := c.batches(ctx, d)
	if err != nil {
		return err
	}
	t := cli.Tally{
		Printer: cli.Printer{Out: d.Out, JSON: *c.asJSON},
		Noun:    event, Past: c.past(), DryRun: *c.dryRun,
	}
	progress := cli.Progress{To: d.Progress, Noun: event, Total: total}
	by := operate.NewDecision(d.By, operate.CLI, c.chosen())
	for {
		ids, err := next()
		if err == nil && len(ids) == 0 {
			break
		}
		if err == nil {
			err = c.decideBatch(ctx, d, by, ids, &t)
		}
		if err != nil {
			return fmt.Errorf("%d of %s %s, then: %w; run the command again to go on", t.Done, event.Count(total), c.past(), err)
		}
		progress.At(t.Done)
	}
	if t.Done+len(t.Refused) == 0 {
		t.Printf("There are no failed events like that, so there is nothing to %s.", c.action)
		return nil
	}
	return t.Sum()
}

// batches returns a function that returns one batch of ids after the other, and then none. It also
// returns how many events there are.
func (c decision) batches(ctx context.Context, d Dependencies) (next func() ([]uuid.UUID, error), total int, err error) {
	if left := c.ids; len(left) > 0 {
		return func() ([]uuid.UUID, error) {
			batch := left[:min(batchSize, len(left))]
			left = left[len(batch):]
			return batch, nil
		}, len(left), nil
	}
	now, err := d.Outbox.Now(ctx)
	if err != nil {
		return nil, 0, err
	}
	// Without --older-than the filter ends now, so that the command does not also change events
	// that fail while it runs.
	f := operate.Filter{Status: operate.Failed, Topic: *c.topic, Before: now.Add(-*c.age)}
	total, err = d.Outbox.Count(ctx, f)
	after := uuid.Nil
	return func() ([]uuid.UUID, error) {
		page, err := d.Outbox.List(ctx, f, after, batchSize)
		if len(page) > 0 {
			after = page[len(page)-1].ID
		}
		return operate.IDsOf(page), err
	}, total, err
}

// decideBatch changes one batch, and counts and prints the result.
func (c decision) decideBatch(ctx context.Context, d Dependencies, by operate.By, ids []uuid.UUID, t *cli.Tally) error {
	result, err := c.decideEvents(ctx, d, by, ids)
	if err != nil {
		return err
	}
	t.Done += len(result.Changed)
	for _, r := range result.Refused {
		// What the filter has found, and is no longer failed, another operator has changed.
		if r.Failed || len(c.ids) > 0 {
			t.Refused = append(t.Refused, r.String())
		}
	}
	if *c.dryRun || *c.asJSON {
		return t.Page(c.entries(result.Changed))
	}
	return nil
}

func (c decision) decideEvents(ctx context.Context, d Dependencies, by operate.By, ids []uuid.UUID) (operate.Result, error) {
	if *c.dryRun {
		return d.Outbox.DryRun(ctx, c.action, ids)
	}
	return c.decide(d.Outbox, ctx, by, ids)
}
