package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	"example.com/transactional-outbox/internal/cli"
)

// change is a command that replays or discards messages.
type change struct {
	verb, past string
	// begin opens what apply needs.
	begin func(Dependencies, Session) (apply, error)
	// refuse returns why a message must not be changed, or ""; refuse may be nil.
	refuse func(DeadLetter) string

	filter
	dryRun, asJSON *bool
}

// apply changes one message. A refusal concerns only this message, an error ends the command.
type apply func(context.Context, found) (refusal string, err error)

func defineChange(flags *flag.FlagSet, c change) func([]string) (Action, error) {
	c.filter, c.dryRun, c.asJSON = defineFilter(flags), cli.DefineDryRun(flags), cli.DefineJSON(flags)
	choice := cli.Choice{Noun: message, Every: "every message in the queue", Filters: filters}
	choice.Define(flags)
	return func(args []string) (_ Action, err error) {
		if err := choice.Check(c.verb, len(args), c.given()); err != nil {
			return nil, err
		}
		c.ids, err = identifiers(args)
		return c.run, err
	}
}

func (c change) run(ctx context.Context, deps Dependencies) error {
	r := changeRun{
		change: c, missing: slices.Clone(c.ids),
		Tally: cli.Tally{Printer: cli.Printer{Out: deps.Out, JSON: *c.asJSON}, Noun: message, Past: c.past, DryRun: *c.dryRun},
	}
	err := deps.Broker(ctx, func(ctx context.Context, s Session) error { return r.applyAll(ctx, deps, s) })
	if *c.dryRun || *c.asJSON {
		err = errors.Join(err, r.Page(r.changed))
	}
	if err != nil {
		return fmt.Errorf("%s %s, then: %w; run the command again to go on", message.Count(r.Done), c.past, err)
	}
	for _, id := range r.missing {
		r.Refused = append(r.Refused, notFound(id))
	}
	if r.Done == 0 && len(r.Refused) == 0 {
		r.Printf("There are no messages like that in %s, so there is nothing to %s.", deps.Queue, c.verb)
		return nil
	}
	return r.Sum()
}

// changeRun is one run of a change.
type changeRun struct {
	change
	cli.Tally
	changed []cli.Row
	missing []string // ids that no message had so far
}

func (r *changeRun) applyAll(ctx context.Context, deps Dependencies, s Session) error {
	apply, err := r.begin(deps, s)
	if err != nil {
		return err
	}
	return deps.browse(ctx, s, func(f found) (bool, error) {
		if !r.matches(f.DeadLetter) {
			return true, nil
		}
		r.missing = slices.DeleteFunc(r.missing, func(id string) bool { return id == f.ID })
		refusal, err := r.applyOne(ctx, f, apply)
		switch {
		case err != nil:
		case refusal != "":
			r.Refused = append(r.Refused, cmp.Or(f.ID, "one without an id")+" "+refusal)
		default:
			r.Done++
			r.changed = append(r.changed, f.DeadLetter)
		}
		return true, err
	})
}

func (r *changeRun) applyOne(ctx context.Context, f found, apply apply) (refusal string, err error) {
	if r.refuse != nil {
		refusal = r.refuse(f.DeadLetter)
	}
	if refusal != "" || *r.dryRun {
		return refusal, nil
	}
	return apply(ctx, f)
}
