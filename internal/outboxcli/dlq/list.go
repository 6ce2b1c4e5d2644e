package dlq

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func list(program string) command {
	return command{
		Name: "list", Arguments: "[flags]",
		Does: "list messages with the reason why they are here",
		More: `Lists the dead letters. CODE is from the consumer, or from the broker if the broker
moved the message itself: delivery-limit, rejected. For example, list messages that
failed more than an hour ago, and then only their ids:

  ` + program + ` list --older-than 1h
  ` + program + ` list --older-than 1h --json | jq -r .id

` + concurrencyNote,
		Define: defineList,
	}
}

type listCommand struct {
	filterFlags
	limit  *cli.Limit
	asJSON *bool
}

func defineList(flags *flag.FlagSet) func([]string) (Action, error) {
	l := listCommand{filterFlags: defineFilter(flags), limit: cli.DefineLimit(flags, message), asJSON: cli.DefineJSON(flags)}
	return func(args []string) (Action, error) {
		if err := cli.NoArguments(args); err != nil {
			return nil, err
		}
		return l.run, l.limit.Check()
	}
}

// run prints after it has given the messages back, because the reader of the output may be slow.
func (l listCommand) run(ctx context.Context, deps Dependencies) error {
	var found []letter
	filter := l.filter(nil)
	err := deps.Open(ctx, func(ctx context.Context, letters Letters) error {
		return deps.each(ctx, letters, func(d rabbitmq.DeadLetter) (bool, error) {
			if filter.matches(d, time.Now()) {
				found = append(found, letterOf(d))
			}
			return len(found) <= l.limit.N, nil // one more than is printed
		})
	})
	if err != nil {
		return err
	}
	p := cli.Printer{Out: deps.Out, JSON: *l.asJSON}
	if len(found) == 0 {
		p.Printf("There are no messages like that in %s.", deps.Queue)
	}
	if len(found) > l.limit.N {
		found = found[:l.limit.N]
		_, _ = fmt.Fprint(deps.Progress, l.limit.More(strings.Join(filters, ", ")))
	}
	return p.Page(rowsOf(found))
}
