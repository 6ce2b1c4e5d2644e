package operate

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

var list = command{
	name: "list", arguments: "[flags]",
	does: "list events: the failed ones, or those of another status",
	more: `Lists events in the order of their creation: the failed ones, unless --status says
otherwise. For example, what has been failed for an hour, and only the ids of it:

  ` + program + ` list --older-than 1h
  ` + program + ` list --older-than 1h --json | jq -r .id`,
	define: defineList,
}

// maxLimit keeps a slip of the finger from printing a whole table.
const maxLimit = 100_000

var statuses = []string{"pending", "in_progress", "published", "failed", "discarded"}

type listing struct {
	status, key *string
	age         *time.Duration
	limit       *int
	asJSON      *bool
}

func defineList(flags *flag.FlagSet) func([]string) (Action, error) {
	l := listing{
		key: defineKey(flags), age: defineAge(flags), asJSON: defineJSON(flags),
		status: flags.String("status", "failed", "events of this `STATUS`: "+strings.Join(statuses, ", ")),
		limit:  flags.Int("limit", 100, "at most `N` events"),
	}
	return func(args []string) (Action, error) {
		if err := noOthers(args); err != nil {
			return nil, err
		}
		if !slices.Contains(statuses, *l.status) {
			return nil, fmt.Errorf("there is no status %q; these are: %s", *l.status, strings.Join(statuses, ", "))
		}
		if *l.limit < 1 || *l.limit > maxLimit {
			return nil, fmt.Errorf("--limit must be from 1 to %d", maxLimit)
		}
		return l.run, nil
	}
}

func (l listing) run(ctx context.Context, d Desk) error {
	now, err := d.Outbox.Now(ctx)
	if err != nil {
		return err
	}
	f := outbox.Filter{Status: *l.status, EventKey: *l.key, Before: now.Add(-*l.age)}
	p := printer{out: d.Out, asJSON: *l.asJSON}
	after := uuid.Nil
	for left := *l.limit; left > 0; {
		// One more than is printed, to know whether there are more.
		wanted := min(left, batchSize)
		entries, err := d.Outbox.Find(ctx, f, after, wanted+1)
		if err != nil {
			return err
		}
		shown := entries[:min(wanted, len(entries))]
		if err := p.page(entryRows(shown)); err != nil {
			return err
		}
		if len(entries) <= wanted {
			break
		}
		after, left = shown[wanted-1].ID, left-wanted
		if left == 0 {
			_, _ = fmt.Fprintf(d.Progress, "These are the first %d, and there are more: --limit shows them, --event-key and --older-than choose.\n", *l.limit)
		}
	}
	if !p.headed {
		p.say("There are no %s events like that.", *l.status)
	}
	return nil
}
