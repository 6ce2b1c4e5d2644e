package operate

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"example.com/transactional-outbox/internal/operator"
)

var list = command{
	Name: "list", Arguments: "[flags]",
	Does: "list messages with the reason why they are here",
	More: `Lists the dead letters. CODE is the consumer's, or the broker's for what it moved here
itself: delivery-limit, rejected. For example, what came more than an hour ago, and
only the ids of it:

  ` + program + ` list --older-than 1h
  ` + program + ` list --older-than 1h --json | jq -r .id

` + inOtherHands,
	Define: defineList,
}

type listing struct {
	filter
	limit  *operator.Limit
	asJSON *bool
}

func defineList(flags *flag.FlagSet) func([]string) (Action, error) {
	l := listing{filter: defineFilter(flags), limit: operator.DefineLimit(flags, message), asJSON: operator.DefineJSON(flags)}
	return func(args []string) (Action, error) {
		if err := operator.NoOthers(args); err != nil {
			return nil, err
		}
		return l.run, l.limit.Check()
	}
}

// run prints after it has given the messages back: whoever reads may take his time.
func (l listing) run(ctx context.Context, d Desk) error {
	var rows []operator.Row
	err := d.Broker(ctx, func(ctx context.Context, s Session) error {
		return d.walk(ctx, s, func(f found) (bool, error) {
			if l.fits(f.Letter) {
				rows = append(rows, f.Letter)
			}
			return len(rows) <= l.limit.N, nil // one more than is printed
		})
	})
	if err != nil {
		return err
	}
	p := operator.Printer{Out: d.Out, JSON: *l.asJSON}
	if len(rows) == 0 {
		p.Say("There are no messages like that in %s.", d.Queue)
	}
	if len(rows) > l.limit.N {
		rows = rows[:l.limit.N]
		_, _ = fmt.Fprint(d.Progress, l.limit.More(strings.Join(filters, ", ")))
	}
	return p.Page(rows)
}
