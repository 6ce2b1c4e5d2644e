package operate

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

var list = command{
	Name: "list", Arguments: "[flags]",
	Does: "list events: the failed ones, or those of another status",
	More: `Lists events in the order of their creation: the failed ones, unless --status says
otherwise. For example, what has been failed for an hour, and only the ids of it:

  ` + program + ` list --older-than 1h
  ` + program + ` list --older-than 1h --json | jq -r .id`,
	Define: defineList,
}

var statuses = []string{"pending", "in_progress", "published", "failed", "discarded"}

type listing struct {
	status, key *string
	age         *time.Duration
	limit       *operator.Limit
	asJSON      *bool
}

func defineList(flags *flag.FlagSet) func([]string) (Action, error) {
	l := listing{
		key: defineKey(flags), age: defineAge(flags), asJSON: operator.DefineJSON(flags),
		status: flags.String("status", "failed", "events of this `STATUS`: "+strings.Join(statuses, ", ")),
		limit:  operator.DefineLimit(flags, event),
	}
	return func(args []string) (Action, error) {
		if err := operator.NoOthers(args); err != nil {
			return nil, err
		}
		if !slices.Contains(statuses, *l.status) {
			return nil, fmt.Errorf("there is no status %q; these are: %s", *l.status, strings.Join(statuses, ", "))
		}
		return l.run, l.limit.Check()
	}
}

func (l listing) run(ctx context.Context, d Desk) error {
	now, err := d.Outbox.Now(ctx)
	if err != nil {
		return err
	}
	f := outbox.Filter{Status: *l.status, EventKey: *l.key, Before: now.Add(-*l.age)}
	p := operator.Printer{Out: d.Out, JSON: *l.asJSON}
	after := uuid.Nil
	for left := l.limit.N; left > 0; {
		// One more than is printed, to know whether there are more.
		wanted := min(left, batchSize)
		entries, err := d.Outbox.Find(ctx, f, after, wanted+1)
		if err != nil {
			return err
		}
		shown := entries[:min(wanted, len(entries))]
		if err := p.Page(entryRows(shown)); err != nil {
			return err
		}
		if len(entries) <= wanted {
			break
		}
		after, left = shown[wanted-1].ID, left-wanted
		if left == 0 {
			_, _ = fmt.Fprint(d.Progress, l.limit.More("--event-key and --older-than"))
		}
	}
	if !p.Headed() {
		p.Say("There are no %s events like that.", *l.status)
	}
	return nil
}
