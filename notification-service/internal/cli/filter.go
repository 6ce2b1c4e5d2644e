package cli

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

// filters are the flags of a filter.
var filters = []string{"--reason", "--routing-key", "--older-than", "--since", "--until"}

// filterFlags are the values of the flags.
type filterFlags struct {
	reason, key  *string
	age          *time.Duration
	since, until *cli.Moment
}

func defineFilter(flags *flag.FlagSet) filterFlags {
	return filterFlags{
		reason: cli.DefineText(flags, "reason", "only messages with this `CODE`", "retries-exhausted"),
		key:    cli.DefineText(flags, "routing-key", "only messages with this `KEY`", "order.created"),
		age:    cli.DefineAge(flags, "older-than", "only messages that failed this `TIME` ago or earlier"),
		since:  cli.DefineMoment(flags, "since", "only messages that failed at this `TIME` or later, such as 2h or 2026-01-31T08:00:00Z"),
		until:  cli.DefineMoment(flags, "until", "only messages that failed before this `TIME`"),
	}
}

// filter returns the filter that the flags and the ids make. Call it after the flags are parsed.
func (f filterFlags) filter(ids []string) deadletter.Filter {
	now := time.Now()
	return deadletter.Filter{
		IDs: ids, Reason: *f.reason, RoutingKey: *f.key, OlderThan: *f.age, Since: f.since.AsOf(now), Until: f.until.AsOf(now),
	}
}

// identifiers reads the ids of messages. Publishers choose them, so they need not be UUIDs.
func identifiers(args []string) ([]string, error) {
	if slices.Contains(args, "") {
		return nil, fmt.Errorf("one of the ids is empty; `%s list` shows ids, and --reason chooses messages without one", program)
	}
	return slices.Compact(slices.Sorted(slices.Values(args))), nil
}

// identifier reads one id.
func identifier(args []string) ([]string, error) {
	ids, err := identifiers(args)
	if err == nil && len(ids) != 1 {
		err = errors.New("name one message by its id")
	}
	return ids, err
}

// notFound is the error text for an id that no message had.
func notFound(id string) string {
	return fmt.Sprintf("%s is not in the queue, or another operator's command holds it; `%s list` shows ids", id, program)
}
