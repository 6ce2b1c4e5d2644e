package operate

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	"example.com/transactional-outbox/internal/operator"
)

// decision is what becomes of dead letters, and of which.
type decision struct {
	verb, past string
	// begin opens what is needed to decide.
	begin func(Desk, Session) (decide, error)
	// refuse says why a message must not be decided about like that; it may be nil.
	refuse func(Letter) string

	filter
	dryRun, asJSON *bool
}

// decide does it with one message. It returns a refusal where another message may
// fare better.
type decide func(context.Context, found) (refusal string, err error)

func defineDecision(flags *flag.FlagSet, c decision) func([]string) (Action, error) {
	c.filter, c.dryRun, c.asJSON = defineFilter(flags), operator.DefineDryRun(flags), operator.DefineJSON(flags)
	choice := operator.Choice{Noun: message, Every: "every message in the queue", Filters: filters}
	choice.Define(flags)
	return func(args []string) (_ Action, err error) {
		if err := choice.Check(c.verb, len(args), c.given()); err != nil {
			return nil, err
		}
		c.ids, err = identifiers(args)
		return c.run, err
	}
}

func (c decision) run(ctx context.Context, d Desk) error {
	r := round{
		decision: c, missing: slices.Clone(c.ids),
		Tally: operator.Tally{Printer: operator.Printer{Out: d.Out, JSON: *c.asJSON}, Noun: message, Past: c.past, DryRun: *c.dryRun},
	}
	err := d.Broker(ctx, func(ctx context.Context, s Session) error { return r.decideAll(ctx, d, s) })
	if *c.dryRun || *c.asJSON {
		err = errors.Join(err, r.Page(r.decided))
	}
	if err != nil {
		return fmt.Errorf("%s %s, then: %w; run the command again to go on", message.Count(r.Done), c.past, err)
	}
	for _, id := range r.missing {
		r.Refused = append(r.Refused, notSeen(id))
	}
	if r.Done == 0 && len(r.Refused) == 0 {
		r.Say("There are no messages like that in %s, so there is nothing to %s.", d.Queue, c.verb)
		return nil
	}
	return r.Sum()
}

// round is one run of a decision.
type round struct {
	decision
	operator.Tally
	decided []operator.Row
	missing []string // ids that no message had yet
}

func (r *round) decideAll(ctx context.Context, d Desk, s Session) error {
	decide, err := r.begin(d, s)
	if err != nil {
		return err
	}
	return d.walk(ctx, s, func(f found) (bool, error) {
		if !r.fits(f.Letter) {
			return true, nil
		}
		r.missing = slices.DeleteFunc(r.missing, func(id string) bool { return id == f.ID })
		refusal, err := r.one(ctx, f, decide)
		switch {
		case err != nil:
		case refusal != "":
			r.Refused = append(r.Refused, cmp.Or(f.ID, "one without an id")+" "+refusal)
		default:
			r.Done++
			r.decided = append(r.decided, f.Letter)
		}
		return true, err
	})
}

func (r *round) one(ctx context.Context, f found, decide decide) (refusal string, err error) {
	if r.refuse != nil {
		refusal = r.refuse(f.Letter)
	}
	if refusal != "" || *r.dryRun {
		return refusal, nil
	}
	return decide(ctx, f)
}
