package cli

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/cli"
)

// filters are the flags of a filter.
var filters = []string{"--reason", "--routing-key", "--older-than"}

// filter chooses dead letters.
type filter struct {
	ids         []string // all messages if it is empty
	reason, key *string
	age         *time.Duration
}

func defineFilter(flags *flag.FlagSet) filter {
	return filter{
		reason: cli.DefineText(flags, "reason", "only messages with this `CODE`", "retries-exhausted"),
		key:    cli.DefineText(flags, "routing-key", "only messages with this `KEY`", "order.created"),
		age:    cli.DefineAge(flags, "older-than", "only messages that failed this `TIME` ago or earlier"),
	}
}

// given reports whether any flag of the filter is set.
func (f filter) given() bool { return *f.reason != "" || *f.key != "" || *f.age > 0 }

// matches reports whether the filter chooses a dead letter. Without a failed-at it is never old.
func (f filter) matches(l DeadLetter) bool {
	return (len(f.ids) == 0 || slices.Contains(f.ids, l.ID)) &&
		(*f.reason == "" || *f.reason == l.Code) &&
		(*f.key == "" || *f.key == l.RoutingKey) &&
		(*f.age == 0 || l.Age != nil && *l.Age >= f.age.Seconds())
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
