package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

var list = command{
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
	var found []deadletter.DeadLetter
	filter := l.filter(nil)
	err := deps.Queue.Read(ctx, 0, deps.progress(), func(f deadletter.Found) bool {
		if filter.Matches(f.DeadLetter) {
			found = append(found, f.DeadLetter)
		}
		return len(found) <= l.limit.N // one more than is printed
	})
	if err != nil {
		return err
	}
	p := cli.Printer{Out: deps.Out, JSON: *l.asJSON}
	if len(found) == 0 {
		p.Printf("There are no messages like that in %s.", deps.Queue.Name)
	}
	if len(found) > l.limit.N {
		found = found[:l.limit.N]
		_, _ = fmt.Fprint(deps.Progress, l.limit.More(strings.Join(filters, ", ")))
	}
	return p.Page(rowsOf(found))
}
