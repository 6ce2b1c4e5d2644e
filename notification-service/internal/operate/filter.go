package operate

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/operator"
)

// filters are the flags of a filter.
var filters = []string{"--reason", "--routing-key", "--older-than"}

// filter says which dead letters.
type filter struct {
	ids         []string // any, if none is named
	reason, key *string
	age         *time.Duration
}

func defineFilter(flags *flag.FlagSet) filter {
	return filter{
		reason: operator.DefineText(flags, "reason", "only messages with this `CODE`", "retries-exhausted"),
		key:    operator.DefineText(flags, "routing-key", "only messages with this `KEY`", "order.created"),
		age:    operator.DefineAge(flags, "older-than", "only messages that failed this `TIME` ago or earlier"),
	}
}

// given tells whether it leaves anything out, ids apart.
func (f filter) given() bool { return *f.reason != "" || *f.key != "" || *f.age > 0 }

// fits tells whether a letter is meant. One that does not say when it failed is not
// old.
func (f filter) fits(l Letter) bool {
	return (len(f.ids) == 0 || slices.Contains(f.ids, l.ID)) &&
		(*f.reason == "" || *f.reason == l.Code) &&
		(*f.key == "" || *f.key == l.RoutingKey) &&
		(*f.age == 0 || l.Age != nil && *l.Age >= f.age.Seconds())
}

// identifiers reads the ids of messages. These are what their publishers have made
// them, and need not be UUIDs.
func identifiers(args []string) ([]string, error) {
	if slices.Contains(args, "") {
		return nil, fmt.Errorf("one of the ids is empty; `%s list` shows ids, and --reason chooses messages without one", program)
	}
	return slices.Compact(slices.Sorted(slices.Values(args))), nil
}

// identifier reads one.
func identifier(args []string) ([]string, error) {
	ids, err := identifiers(args)
	if err == nil && len(ids) != 1 {
		err = errors.New("name one message by its id")
	}
	return ids, err
}

// notSeen says of an id that no message had it.
func notSeen(id string) string {
	return fmt.Sprintf("%s is not in the queue, or in another operator's hands; `%s list` shows ids", id, program)
}
