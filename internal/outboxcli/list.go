package outboxcli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
)

func (s Service) list() command {
	return command{
		Name: "list", Arguments: "[flags]",
		Does: "list events: the failed ones, or those of another status",
		More: `Lists events in the order of their creation: the failed ones, unless --status names
another status. For example, list events that failed more than an hour ago, and then
only their ids:

  ` + s.program() + ` list --older-than 1h
  ` + s.program() + ` list --older-than 1h --json | jq -r .id`,
		Define: s.defineList,
	}
}

var statuses = operate.Statuses()

type listing struct {
	Service
	status, topic *string
	age           *time.Duration
	limit         *cli.Limit
	asJSON        *bool
}

func (s Service) defineList(flags *flag.FlagSet) func([]string) (Action, error) {
	l := listing{
		Service: s, topic: s.defineTopic(flags), age: defineAge(flags), asJSON: cli.DefineJSON(flags),
		status: flags.String("status", operate.Failed, "events of this `STATUS`: "+strings.Join(statuses, ", ")),
		limit:  cli.DefineLimit(flags, event),
	}
	return func(args []string) (Action, error) {
		if err := cli.NoArguments(args); err != nil {
			return nil, err
		}
		if !slices.Contains(statuses, *l.status) {
			return nil, fmt.Errorf("there is no status %q; these are: %s", *l.status, strings.Join(statuses, ", "))
		}
		return l.run, l.limit.Check()
	}
}

func (l listing) run(ctx context.Context, d Dependencies) error {
	now, err := d.Outbox.Now(ctx)
	if err != nil {
		return err
	}
	f := operate.Filter{Status: *l.status, Topic: *l.topic, Before: now.Add(-*l.age)}
	p := cli.Printer{Out: d.Out, JSON: *l.asJSON}
	after := uuid.Nil
	for left := l.limit.N; left > 0; {
		// It reads one more than it prints, to know whether there are more.
		wanted := min(left, batchSize)
		events, err := d.Outbox.List(ctx, f, after, wanted+1)
		if err != nil {
			return err
		}
		shown := events[:min(wanted, len(events))]
		if err := p.Page(l.entries(shown)); err != nil {
			return err
		}
		if len(events) <= wanted {
			break
		}
		after, left = shown[wanted-1].ID, left-wanted
		if left == 0 {
			_, _ = fmt.Fprint(d.Progress, l.limit.More("--topic and --older-than"))
		}
	}
	if !p.HeaderPrinted() {
		p.Printf("There are no %s events like that.", *l.status)
	}
	return nil
}
