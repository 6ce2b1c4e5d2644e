package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/outbox/operate"
)

// change is a command that replays or discards messages.
type change struct {
	action operate.Action
	past   string
	force  *bool // nil: there is no --force

	filterFlags
	ids            []string
	dryRun, asJSON *bool
}

func defineChange(flags *flag.FlagSet, c change) func([]string) (Action, error) {
	c.filterFlags, c.dryRun, c.asJSON = defineFilter(flags), cli.DefineDryRun(flags), cli.DefineJSON(flags)
	choice := cli.Choice{Noun: message, Every: "every message in the queue", Filters: filters}
	choice.Define(flags)
	return func(args []string) (_ Action, err error) {
		if err := choice.Check(string(c.action), len(args), !c.filter(nil).Empty()); err != nil {
			return nil, err
		}
		c.ids, err = identifiers(args)
		return c.run, err
	}
}

func (c change) run(ctx context.Context, deps Dependencies) error {
	result, err := c.apply(ctx, deps)
	tally := cli.Tally{
		Printer: cli.Printer{Out: deps.Out, JSON: *c.asJSON}, Noun: message, Past: c.past, DryRun: *c.dryRun, Done: len(result.Changed),
	}
	if *c.dryRun || *c.asJSON {
		err = errors.Join(err, tally.Page(rowsOf(result.Changed)))
	}
	if err != nil {
		return fmt.Errorf("%s %s, then: %w; run the command again to go on", message.Count(tally.Done), c.past, err)
	}
	for _, r := range result.Refused {
		tally.Refused = append(tally.Refused, cmp.Or(r.DeadLetter.ID, "one without an id")+" "+r.Why)
	}
	for _, id := range c.missing(result) {
		tally.Refused = append(tally.Refused, notFound(id))
	}
	if tally.Done == 0 && len(tally.Refused) == 0 {
		tally.Printf("There are no messages like that in %s, so there is nothing to %s.", deps.Queue.Name, c.action)
		return nil
	}
	return tally.Sum()
}

func (c change) apply(ctx context.Context, deps Dependencies) (result deadletter.Result, err error) {
	filter, said := c.filter(c.ids), operate.ByIDs
	if len(c.ids) == 0 {
		said = filter.String()
	}
	forced := c.force != nil && *c.force
	if forced {
		said += " --force"
	}
	wanted := deadletter.Change{
		Action: c.action, By: operate.NewDecision(deps.By, operate.CLI, said), Filter: filter,
		Force: forced, DryRun: *c.dryRun, Progress: deps.progress(),
	}
	if *c.dryRun {
		return wanted.Run(ctx, deps.Queue)
	}
	err = deps.Database(ctx, func(recorder deadletter.Recorder) error {
		wanted.Recorder = recorder
		result, err = wanted.Run(ctx, deps.Queue)
		return err
	})
	return result, err
}

// missing returns the ids that no message had.
func (c change) missing(result deadletter.Result) []string {
	found := map[string]bool{}
	for _, l := range result.Changed {
		found[l.ID] = true
	}
	for _, r := range result.Refused {
		found[r.DeadLetter.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(c.ids), func(id string) bool { return found[id] })
}
