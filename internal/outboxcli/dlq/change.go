package dlq

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func replay(program string) command {
	return command{
		Name: "replay", Arguments: "ID… | --reason CODE | --routing-key KEY | --older-than TIME | --all [flags]",
		Does: "send messages to the consumer again",
		More: `Sends messages to the consumer's queue again, each with the same id and with all its
retries. It removes a message from the dead letters after the broker has confirmed the
copy. A message that is sent twice does no harm, because the consumer knows the ids
that it has had, for INBOX_RETENTION. For example:

  ` + program + ` replay 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + program + ` replay --reason retries-exhausted --older-than 1h --dry-run

` + recordNote + concurrencyNote,
		Define: change{program: program, action: operate.Replay}.define,
	}
}

func discard(program string) command {
	return command{
		Name: "discard", Arguments: "ID… | --reason CODE | --routing-key KEY | --older-than TIME | --all [flags]",
		Does: "delete messages for good",
		More: `Deletes messages from the dead letters. They never have their effect. This cannot be
undone. The log says what was deleted, without the bodies. For example:

  ` + program + ` discard 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + program + ` discard --reason malformed --older-than 720h --dry-run

` + recordNote + concurrencyNote,
		Define: change{program: program, action: operate.Discard}.define,
	}
}

// change is a command that replays or discards messages.
type change struct {
	program string
	action  operate.Action

	filterFlags
	ids            []string
	dryRun, asJSON *bool
}

// past is what the messages are afterwards: replayed or discarded.
func (c change) past() string { return string(c.action) + "ed" }

func (c change) define(flags *flag.FlagSet) func([]string) (Action, error) {
	c.filterFlags, c.dryRun, c.asJSON = defineFilter(flags), cli.DefineDryRun(flags), cli.DefineJSON(flags)
	choice := cli.Choice{Noun: message, Every: "every message in the queue", Filters: filters}
	choice.Define(flags)
	return func(args []string) (_ Action, err error) {
		if err := choice.Check(string(c.action), len(args), !c.filter(nil).empty()); err != nil {
			return nil, err
		}
		c.ids, err = identifiers(c.program, args)
		return c.run, err
	}
}

func (c change) run(ctx context.Context, deps Dependencies) error {
	result, err := c.apply(ctx, deps)
	tally := cli.Tally{
		Printer: cli.Printer{Out: deps.Out, JSON: *c.asJSON}, Noun: message, Past: c.past(), DryRun: *c.dryRun, Done: len(result.changed),
	}
	if *c.dryRun || *c.asJSON {
		err = errors.Join(err, tally.Page(rowsOf(result.changed)))
	}
	if err != nil {
		return fmt.Errorf("%s %s, then: %w; run the command again to go on", message.Count(tally.Done), c.past(), err)
	}
	for _, r := range result.refused {
		tally.Refused = append(tally.Refused, cmp.Or(r.ID, "one without an id")+" "+r.why)
	}
	for _, id := range c.ids {
		if !result.found[id] {
			tally.Refused = append(tally.Refused, notFound(c.program, id))
		}
	}
	if tally.Done == 0 && len(tally.Refused) == 0 {
		tally.Printf("There are no messages like that in %s, so there is nothing to %s.", deps.Queue, c.action)
		return nil
	}
	return tally.Sum()
}

// result is what a change did, also if it ended with an error.
type result struct {
	changed []letter // in a dry run: what would be changed
	refused []refusal
	found   map[string]bool // the ids
}

// refusal is a message that cannot be changed, and why.
type refusal struct {
	letter
	why string
}

func (c change) apply(ctx context.Context, deps Dependencies) (result, error) {
	said := operate.ByIDs
	if len(c.ids) == 0 {
		said = c.filter(nil).String()
	}
	changing := &changing{
		change: c, result: result{found: map[string]bool{}}, deps: deps, by: operate.NewDecision(deps.By, operate.CLI, said),
	}
	filter := c.filter(c.ids)
	work := func(recorder Recorder) error {
		changing.recorder = recorder
		return deps.Open(ctx, func(ctx context.Context, letters Letters) error {
			changing.letters = letters
			err := deps.each(ctx, letters, func(l rabbitmq.DeadLetter) (bool, error) {
				if !filter.matches(l, time.Now()) {
					return true, nil
				}
				return true, changing.add(ctx, l)
			})
			if err != nil {
				return err
			}
			return changing.changeBatch(ctx)
		})
	}
	var err error
	if *c.dryRun {
		err = work(nil)
	} else {
		err = deps.Database(ctx, work)
	}
	return changing.result, err
}
