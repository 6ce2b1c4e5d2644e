package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

func (c decision) run(ctx context.Context, d Dependencies) error {
	batches, total, err := c.batches(ctx, d)
	if err != nil {
		return err
	}
	t := cli.Tally{
		Printer: cli.Printer{Out: d.Out, JSON: *c.asJSON},
		Noun:    event, Past: c.done, DryRun: *c.dryRun,
	}
	progress := cli.Progress{To: d.Progress, Noun: event, Total: total}
	by := audit.New(d.By, audit.CLI, c.chosen())
	for ids, err := range batches {
		if err == nil {
			err = c.decideBatch(ctx, d, by, ids, &t)
		}
		if err != nil {
			return fmt.Errorf("%d of %s %s, then: %w; run the command again to go on", t.Done, event.Count(total), c.done, err)
		}
		progress.At(t.Done)
	}
	if t.Done == 0 && len(c.ids) == 0 {
		t.Printf("There are no failed events like that, so there is nothing to %s.", c.verb)
		return nil
	}
	return t.Sum()
}

// batches returns the ids of the events in batches, and how many there are.
func (c decision) batches(ctx context.Context, d Dependencies) (batches iter.Seq2[[]uuid.UUID, error], total int, err error) {
	if len(c.ids) > 0 {
		return batchesOf(c.ids), len(c.ids), nil
	}
	now, err := d.Outbox.Now(ctx)
	if err != nil {
		return nil, 0, err
	}
	// Without --older-than the filter ends now, so that the command does not also change events
	// that fail while it runs.
	f := outbox.Filter{Status: "failed", EventKey: *c.key, Before: now.Add(-*c.age)}
	total, err = d.Outbox.Count(ctx, f)
	return batchesFound(ctx, d, f), total, err
}

func batchesOf(ids []uuid.UUID) iter.Seq2[[]uuid.UUID, error] {
	return func(yield func([]uuid.UUID, error) bool) {
		for batch := range slices.Chunk(ids, batchSize) {
			if !yield(batch, nil) {
				return
			}
		}
	}
}

func batchesFound(ctx context.Context, d Dependencies, f outbox.Filter) iter.Seq2[[]uuid.UUID, error] {
	return func(yield func([]uuid.UUID, error) bool) {
		for after := uuid.Nil; ; {
			page, err := d.Outbox.Find(ctx, f, after, batchSize)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(page) == 0 || !yield(idsOf(page), nil) {
				return
			}
			after = page[len(page)-1].ID
		}
	}
}

// decideBatch changes one batch, and counts and prints the result.
func (c decision) decideBatch(ctx context.Context, d Dependencies, by audit.By, ids []uuid.UUID, t *cli.Tally) error {
	decided, err := c.decideFailed(ctx, d, by, ids)
	if err != nil {
		return err
	}
	t.Done += len(decided)
	if *c.dryRun || *c.asJSON {
		if err := t.Page(entryRows(decided)); err != nil {
			return err
		}
	}
	if len(decided) == len(ids) || len(c.ids) == 0 {
		return nil // another operator has changed the rest, which the filter had found as failed
	}
	rest := without(ids, idsOf(decided))
	found, err := d.Outbox.Get(ctx, rest...)
	t.Refused = append(t.Refused, reasons(rest, found)...)
	return err
}

// decideFailed changes those of the events that are failed, and returns them.
func (c decision) decideFailed(ctx context.Context, d Dependencies, by audit.By, ids []uuid.UUID) ([]outbox.Entry, error) {
	if *c.dryRun {
		found, err := d.Outbox.Get(ctx, ids...)
		return slices.DeleteFunc(found, func(e outbox.Entry) bool { return e.Status != "failed" }), err
	}
	return c.decide(d.Outbox, ctx, by, ids)
}

// reasons says for each id why it was not changed.
func reasons(ids []uuid.UUID, found []outbox.Entry) (reasons []string) {
	for _, id := range without(ids, idsOf(found)) {
		reasons = append(reasons, id.String()+" is not in the outbox")
	}
	for _, e := range found {
		reasons = append(reasons, e.ID.String()+" is "+e.Status+", not failed")
	}
	return reasons
}

func without(ids, excluded []uuid.UUID) []uuid.UUID {
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return slices.Contains(excluded, id) })
}

func idsOf(entries []outbox.Entry) []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}
